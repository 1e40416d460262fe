"""Writes transformers.json beside it: layer norm, attention, transformer blocks, SASRec and BERT by PyTorch in f64.

Run by hand: pip install torch==2.15.0 numpy==2.4.6 && python transformers.py

Numbers are those of nets.py, u(t, k), with its scales by name and shape: t is the tensor's position in the state_dict, weights of
several dimensions are halved so that softmax does not saturate. The input is tensor 1000, u times 2, with the rows of all sequences
one after the other; each sequence goes through the module alone. The loss is sum_k c_k y_k with c = u of tensor 2000.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

torch.set_default_dtype(torch.float64)
INPUT, COTANGENT = 1000, 2000
LENGTHS = [7, 1, 40, 2]


def mixed(t, count):
    with np.errstate(over="ignore"):
        z = (np.uint64(t << 32) + np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return torch.from_numpy((z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0)


def tensor(t, name, shape):
    u = mixed(t, int(np.prod(shape))).reshape(tuple(shape))
    if name.endswith("weight") and len(shape) > 1:
        return u * np.sqrt(6.0 / np.prod(shape[1:])) / 2
    return 1 + 0.2 * u if name.endswith("weight") else 0.1 * u


def values(x):
    return x.detach().flatten().tolist()


def causal(n):
    return nn.Transformer.generate_square_subsequent_mask(n)


class Attention(nn.Module):
    """From [q k v]."""

    def __init__(self, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal

    def forward(self, x):
        q, k, v = (part.unflatten(1, (self.heads, -1)).transpose(0, 1) for part in x.chunk(3, 1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return y.transpose(0, 1).flatten(1)


class Block(nn.Module):
    """PyTorch's own."""

    def __init__(self, width, heads, hidden, is_causal, **options):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, **options)
        self.is_causal = is_causal

    def forward(self, x):
        return self.block(x, causal(len(x)) if self.is_causal else None)


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, 1)
        self.conv2 = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return self.conv2(torch.relu(self.conv1(x.T))).T


class Sasrec(nn.Module):
    """pmixer/SASRec.pytorch from the rows of items on; row 0 of pos_emb is that of the padding."""

    def __init__(self, width, heads, blocks, length):
        super().__init__()
        self.width, self.length = width, length
        self.pos_emb = nn.Embedding(length + 1, width)
        norms = [
            nn.ModuleList(nn.LayerNorm(width, eps=1e-8) for _ in range(blocks)) for _ in range(2)
        ]
        self.attention_layernorms = norms[0]
        self.attention_layers = nn.ModuleList(
            nn.MultiheadAttention(width, heads) for _ in range(blocks)
        )
        self.forward_layernorms = norms[1]
        self.forward_layers = nn.ModuleList(FeedForward(width) for _ in range(blocks))
        self.last_layernorm = nn.LayerNorm(width, eps=1e-8)

    def forward(self, items):
        positions = torch.arange(self.length - len(items) + 1, self.length + 1)
        x = items * self.width**0.5 + self.pos_emb(positions)
        for norm1, attention, norm2, forward in zip(
            self.attention_layernorms, self.attention_layers, self.forward_layernorms,
            self.forward_layers, strict=True,
        ):  # fmt: skip
            q = norm1(x)
            x = norm2(q + attention(q, x, x, attn_mask=causal(len(x)))[0])
            x = x + forward(x)
        return self.last_layernorm(x)


def parts(**own):
    return nn.ModuleDict(own)


def bert_layer(width, intermediate):
    dense, norm = nn.Linear, lambda: nn.LayerNorm(width, eps=1e-12)
    own = {name: dense(width, width) for name in ("query", "key", "value")}
    return parts(
        attention=parts(
            self=parts(**own), output=parts(dense=dense(width, width), LayerNorm=norm())
        ),
        intermediate=parts(dense=dense(width, intermediate)),
        output=parts(dense=dense(intermediate, width), LayerNorm=norm()),
    )


class Bert(nn.Module):
    """Hugging Face's BertModel from the rows of words on, without pooler."""

    def __init__(self, width, heads, intermediate, layers, positions):
        super().__init__()
        self.heads = heads
        self.embeddings = parts(
            position_embeddings=nn.Embedding(positions, width),
            token_type_embeddings=nn.Embedding(2, width),
            LayerNorm=nn.LayerNorm(width, eps=1e-12),
        )
        layers = nn.ModuleList(bert_layer(width, intermediate) for _ in range(layers))
        self.encoder = parts(layer=layers)

    def forward(self, words):
        e = self.embeddings
        types = torch.zeros(len(words), dtype=torch.long)
        x = words + e["position_embeddings"](torch.arange(len(words)))
        x = e["LayerNorm"](x + e["token_type_embeddings"](types))
        for layer in self.encoder["layer"]:
            own, out = layer["attention"]["self"], layer["attention"]["output"]
            q, k, v = (
                own[part](x).unflatten(1, (self.heads, -1)).transpose(0, 1)
                for part in ("query", "key", "value")
            )
            p = torch.softmax(q @ k.transpose(1, 2) / q.shape[2] ** 0.5, 2)
            x = out["LayerNorm"](x + out["dense"]((p @ v).transpose(0, 1).flatten(1)))
            hidden = functional.gelu(layer["intermediate"]["dense"](x))
            x = layer["output"]["LayerNorm"](x + layer["output"]["dense"](hidden))
        return x


def case(name, module, inputs, **options):
    tensors = list(module.state_dict().items())
    with torch.no_grad():
        for t, (tensor_name, value) in enumerate(tensors):
            value.copy_(tensor(t, tensor_name, value.shape))
    x = (2 * mixed(INPUT, sum(LENGTHS) * inputs)).reshape(-1, inputs).requires_grad_()
    y = torch.cat([module(rows) for rows in x.split(LENGTHS)])
    (y * mixed(COTANGENT, y.numel()).reshape(y.shape)).sum().backward()
    return {
        "name": name, "options": options, "input": inputs, "lengths": LENGTHS,
        "tensors": [{"name": n, "shape": list(v.shape)} for n, v in tensors],
        "y": values(y), "dx": values(x.grad),
        "gradients": {n: values(p.grad) for n, p in module.named_parameters()},
    }  # fmt: skip


def attention(width, heads, is_causal):
    module = Attention(heads, is_causal)
    return case("attention", module, 3 * width, width=width, heads=heads, causal=is_causal)


def block(is_causal, norm_first, activation):
    options = {"norm_first": norm_first, "activation": activation}
    module = Block(6, 2, 10, is_causal, **options)
    return case("block", module, 6, width=6, heads=2, hidden=10, causal=is_causal, **options)


def cases():
    yield case("layer-norm", nn.Sequential(nn.LayerNorm(9)), 9, width=9, eps=1e-5)
    yield case("layer-norm", nn.Sequential(nn.LayerNorm(5, eps=0.1)), 5, width=5, eps=0.1)
    for heads in (1, 3):
        for is_causal in (False, True):
            yield attention(6, heads, is_causal)
    for norm_first in (False, True):
        yield block(True, norm_first, "relu")
        yield block(False, norm_first, "gelu")
    sizes = {"width": 6, "heads": 2, "blocks": 2, "length": 40}
    yield case("sasrec", Sasrec(**sizes), 6, **sizes)
    sizes = {"width": 6, "heads": 3, "intermediate": 10, "layers": 2, "positions": 45}
    yield case("bert", Bert(**sizes), 6, **sizes)


lines = ",\n".join(json.dumps(case) for case in cases())
text = f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n'
Path(__file__).with_name("transformers.json").write_text(text)
