"""Writes kernels.json beside it: tangent kernels of small networks from the Jacobians of PyTorch, in f64.

Run by hand: pip install torch==2.15.0 numpy==2.4.6 && python kernels.py

Weights and inputs are not stored. They are the numbers u(t, k) of ../nets/nets.py; tensor t is the place of a tensor in the
state_dict without num_batches_tracked, and

    of several dimensions   u sqrt(3 / (product of all dimensions but the first))
    running_var             1 + 0.5 u        weight of one dimension   1 + 0.2 u        others   0.1 u

The input is tensor 1000, u times 2: n x c x h x w of images, the rows of all sequences one after the other. Where sequences are
ids, their rows are those of the tensor `words.weight`. Sample i has class i mod 3.

With f(x) the C outputs of one sample, J_i = df(x_i)/d(all parameters) by reverse mode, output by output, and where torch.func
supports the network once more by torch.func.jacrev:

    entk         J_i J_j', rows and columns sample by sample and output by output
    trntk0       sum_c of its diagonal blocks          trntk   trntk0_ij / sqrt(trntk0_ii trntk0_jj)
    pntk         (1/C) d(sum_c f_c) . d(sum_c f_c)     difference   of f_0 - f_2
    margin       of f_y - ln sum_(c != y) exp f_c      loss         of cross entropy
    ck           1 + h . h' with h the input of the last layer

by torch.autograd of these functions themselves, not from J. `items` is the kernel of f = sum_c w_c h . E_c, h the output at the last row
and E the table that the rows come from as well.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

torch.set_default_dtype(torch.float64)
INPUT = 1000
LENGTHS = [3, 1, 6, 2, 5]
WORDS = 7
IDS = [(r * r + r // 3) % WORDS for r in range(sum(LENGTHS))]


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
    shape = tuple(shape)
    u = mixed(t, int(np.prod(shape))).reshape(shape)
    if len(shape) > 1:
        return u * np.sqrt(3.0 / np.prod(shape[1:]))
    if name.endswith("running_var"):
        return 1 + 0.5 * u
    return 1 + 0.2 * u if name.endswith("weight") else 0.1 * u


class Layers(nn.Module):
    """One after the other, by name; what comes into the last is the feature."""

    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)

    def feature(self, x):
        for layer in list(self.children())[:-1]:
            x = layer(x)
        return x

    def forward(self, x):
        return list(self.children())[-1](self.feature(x))


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Recurrent(nn.Module):
    """A recurrent layer under its own names; x is one sequence."""

    def __init__(self, cell, inputs, hidden, both):
        super().__init__()
        own = getattr(nn, cell.upper())(inputs, hidden, bidirectional=both)
        for name, value in own.named_parameters():
            self.register_parameter(name, value)
        self.cell = [own]  # hidden from the list of modules

    def forward(self, x):
        return self.cell[0](x)[0]


class Positions(nn.Module):
    def __init__(self, most, width, from_end=False, scale=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(most, width))
        self.from_end, self.scale = from_end, scale

    def forward(self, x):
        first = len(self.weight) - len(x) if self.from_end else 0
        return self.scale * x + self.weight[first : first + len(x)]


class Block(nn.Module):
    """PyTorch's own encoder layer, without its fused path."""

    def __init__(self, width, heads, hidden, causal, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, **options)
        for name, child in layer.named_children():
            self.add_module(name, child)
        self.layer, self.causal = [layer], causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(len(x)) if self.causal else None
        return self.layer[0](x, mask)


class Words(nn.Module):
    """A table before a network."""

    def __init__(self, net):
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        self.net = net

    def feature(self, ids):
        return self.net.feature(self.words(ids))

    def forward(self, ids):
        return self.net(self.words(ids))


def first(x):
    return x[0]


def last(x):
    return x[-1]


def mean(x):
    return x.mean(0)


def images():
    """Convolutions with padding, stride, groups, depthwise, 1 x 1; batch norm as in eval; layer norm; dense."""
    wide = 5 * 3 * 2
    return Layers(
        conv1=nn.Conv2d(2, 4, 3, padding=1), bn=nn.BatchNorm2d(4), relu=nn.ReLU(),
        depthwise=nn.Conv2d(4, 4, 3, padding=1, groups=4),
        grouped=nn.Conv2d(4, 6, 3, stride=2, groups=2), act=nn.Tanh(),
        point=nn.Conv2d(6, 5, 1, bias=False), flatten=Call(lambda x: x.flatten(1)),
        ln=nn.LayerNorm(wide), fc=nn.Linear(wide, 3),
    ).eval()  # fmt: skip


def pooled():
    """Maximum, average and global pooling, strides without padding."""
    return Layers(
        conv1=nn.Conv2d(3, 4, 3), act1=nn.Tanh(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(4, 5, 2, bias=False), bn2=nn.BatchNorm2d(5), pool2=nn.AvgPool2d(2, 1),
        average=Call(lambda x: x.mean(dim=(2, 3))), fc=nn.Linear(5, 3),
    ).eval()  # fmt: skip


def mlp():
    return Layers(
        fc1=nn.Linear(5, 9), act1=nn.Tanh(), fc2=nn.Linear(9, 7, bias=False), act2=nn.ReLU(),
        fc3=nn.Linear(7, 3),
    )  # fmt: skip


def recurrent(cell, both, pool):
    width = 6 if both else 3
    return Layers(
        rnn1=Recurrent(cell, 4, 3, both), rnn2=Recurrent(cell, width, 3, both), pool=Call(pool),
        fc=nn.Linear(width, 3),
    )  # fmt: skip


def encoder(pool, causal, **options):
    return Layers(
        positions=Positions(8, 4), block=Block(4, 2, 6, causal, **options), pool=Call(pool),
        fc=nn.Linear(4, 3),
    )  # fmt: skip


class Ranker(nn.Module):
    """Positions from the end and a causal block; f = sum_c w_c h . E_c with the table of its inputs."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        self.positions = Positions(6, 4, from_end=True, scale=2.0)
        self.block = Block(4, 2, 6, True, norm_first=True)

    def forward(self, ids, items, weights):
        h = self.block(self.positions(self.words(ids)))[-1]
        return torch.dot(weights, self.words(items) @ h)


def fill(model):
    tensors = [
        item
        for item in model.state_dict().items()
        if item[0].split(".")[-1] != "num_batches_tracked"
    ]
    with torch.no_grad():
        for t, (name, value) in enumerate(tensors):
            value.copy_(tensor(t, name, value.shape))
    return [{"name": name, "shape": list(value.shape)} for name, value in tensors]


def flat(gradients, parameters):
    zeros = zip(gradients, parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in zeros])


def gradient(model, value):
    parameters = list(model.parameters())
    own = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    return flat(own, parameters)


def values(x):
    return x.detach().flatten().tolist()


def products(rows):
    g = torch.stack(rows)
    return g @ g.T


def margin(f, y):
    others = torch.cat([f[:y], f[y + 1 :]])
    return f[y] - torch.logsumexp(others, 0)


def case(name, model, samples, with_func, **about):
    tensors = fill(model)
    of = {
        key: [] for key in ("outputs", "entk", "pntk", "difference", "margin", "loss", "features")
    }
    for i, x in enumerate(samples):
        f = model(x).squeeze(0) if x.ndim == 4 else model(x)
        y = i % 3
        jacobian = [gradient(model, value) for value in f]
        if with_func:
            whole = lambda own, x=x: torch.func.functional_call(model, own, (x,)).reshape(-1)
            own = torch.func.jacrev(whole)({n: p.detach() for n, p in model.named_parameters()})
            again = torch.cat([own[n].flatten(1) for n, _ in model.named_parameters()], 1)
            assert torch.allclose(torch.stack(jacobian), again, rtol=0, atol=1e-12), name
        of["outputs"].append(f)
        of["entk"] += jacobian
        of["pntk"].append(gradient(model, f.sum() / len(f) ** 0.5))
        of["difference"].append(gradient(model, f[0] - f[2]))
        of["margin"].append(gradient(model, margin(f, y)))
        of["loss"].append(gradient(model, functional.cross_entropy(f, torch.tensor(y))))
        of["features"].append(model.feature(x).flatten())
    n, c = len(samples), len(of["outputs"][0])
    entk = products(of["entk"])
    trace = entk.reshape(n, c, n, c).diagonal(dim1=1, dim2=3).sum(-1)
    own = trace.diagonal()
    kernels = {
        "entk": entk, "trntk0": trace, "trntk": trace / torch.outer(own, own).sqrt(),
        "pntk": products(of["pntk"]), "difference": products(of["difference"]),
        "margin": products(of["margin"]), "loss": products(of["loss"]),
        "ck": 1 + products(of["features"]),
    }  # fmt: skip
    return {
        "name": name, **about, "samples": n, "tensors": tensors,
        "outputs": values(torch.stack(of["outputs"])),
        "kernels": {key: values(k) for key, k in kernels.items()},
    }  # fmt: skip


def rows(width):
    return (2 * mixed(INPUT, sum(LENGTHS) * width)).reshape(-1, width).split(LENGTHS)


def ids():
    return torch.tensor(IDS).split(LENGTHS)


def items(i):
    """Two items with weights for sample i; one may be among its rows."""
    return torch.tensor([i % WORDS, (3 * i + 1) % WORDS]), torch.tensor([1.0, -0.5])


def ranker():
    model = Ranker()
    tensors = fill(model)
    f = [model(x, *items(i)) for i, x in enumerate(ids())]
    kernel = products([gradient(model, value) for value in f])
    return {
        "name": "tied table", "lengths": LENGTHS, "ids": IDS, "samples": len(LENGTHS),
        "tensors": tensors, "outputs": values(torch.stack(f)), "kernels": {"items": values(kernel)},
    }  # fmt: skip


def cases():
    batch = lambda *shape: (2 * mixed(INPUT, int(np.prod(shape)))).reshape(shape)
    yield case("mlp", mlp(), list(batch(5, 5)), True, input=[5])
    for name, model, shape in (
        ("images", images(), (4, 2, 7, 6)),
        ("pooled", pooled(), (4, 3, 10, 9)),
    ):
        yield case(name, model, list(batch(*shape).split(1)), True, input=list(shape[1:]))
    sequences = {"lengths": LENGTHS, "input": [4]}
    for cell in ("gru", "lstm"):
        yield case(f"{cell} both", recurrent(cell, True, mean), rows(4), False, **sequences)
        yield case(f"{cell} forward", recurrent(cell, False, last), rows(4), False, **sequences)
    post = {"activation": "gelu"}
    yield case("encoder", encoder(first, False, **post), rows(4), True, **sequences)
    pre = {"activation": "relu", "norm_first": True}
    yield case("decoder", encoder(last, True, **pre), rows(4), True, **sequences)
    table = {"lengths": LENGTHS, "ids": IDS}
    yield case("encoder of words", Words(encoder(first, False, **post)), ids(), True, **table)
    yield case("gru of words", Words(recurrent("gru", True, mean)), ids(), False, **table)
    yield ranker()


head = {"torch": torch.__version__, "numpy": np.__version__}
lines = ",\n".join(json.dumps(case) for case in cases())
text = json.dumps(head)[:-1] + f', "cases": [\n{lines}\n]}}\n'
Path(__file__).with_name("kernels.json").write_text(text)
