"""PyTorch's side of sequences: training steps of a large embedding, GRU, LSTM, SASRec and an encoder, in every
variant that might be its best.

Sequences all have the full length, so that padding costs PyTorch nothing. A name with -dropout has the dropout of the papers (0.2 and 0.1);
without one, PyTorch's attention takes its fused kernel.
"""

import time
import warnings

import torch
from torch import nn
from torch.nn import functional

ITEMS, WIDTH, LENGTH = 3416, 64, 200


class Attention(nn.Module):
    def __init__(self, width, heads, dropout, is_causal):
        super().__init__()
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.heads, self.dropout, self.is_causal = heads, dropout, is_causal

    def forward(self, q, x):
        split = lambda part: part.unflatten(2, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(x).chunk(2, 2)
        y = functional.scaled_dot_product_attention(
            split(self.q(q)), split(k), split(v), dropout_p=self.dropout, is_causal=self.is_causal
        )
        return self.out(y.transpose(1, 2).flatten(2))


class SasrecBlock(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-8)
        self.attention = Attention(WIDTH, 1, dropout, True)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-8)
        self.forward1, self.forward2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        q = self.norm1(x)
        x = self.norm2(q + self.attention(q, x))
        hidden = self.drop(functional.relu(self.forward1(x)))
        return x + self.drop(self.forward2(hidden))


class Sasrec(nn.Module):
    """SASRec with the loss of one negative per position."""

    def __init__(self, dropout):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(SasrecBlock(dropout) for _ in range(2)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-8)

    def forward(self, ids):
        items, targets, negatives = ids
        x = self.drop(self.items(items) * WIDTH**0.5 + self.positions)
        h = self.norm(self.blocks(x))
        yes, no = ((h * self.items(other)).sum(-1) for other in (targets, negatives))
        bce = functional.binary_cross_entropy_with_logits
        return bce(yes, torch.ones_like(yes)) + bce(no, torch.zeros_like(no))


class EncoderBlock(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.qkv, self.out = nn.Linear(384, 3 * 384), nn.Linear(384, 384)
        self.norm1, self.norm2 = nn.LayerNorm(384), nn.LayerNorm(384)
        self.forward1, self.forward2 = nn.Linear(384, 1536), nn.Linear(1536, 384)
        self.drop, self.dropout = nn.Dropout(dropout), dropout

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, 12, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        x = self.norm1(x + self.drop(self.out(y.transpose(1, 2).flatten(2))))
        hidden = functional.gelu(self.forward1(x))
        return self.norm2(x + self.drop(self.forward2(hidden)))


class Encoder(nn.Module):
    """Six blocks, PyTorch's or our own; the loss is <c, y>."""

    def __init__(self, dropout, is_own):
        super().__init__()
        own = lambda: nn.TransformerEncoderLayer(
            384, 12, 1536, dropout, functional.gelu, batch_first=True
        )
        self.blocks = nn.Sequential(*(own() if is_own else EncoderBlock(dropout) for _ in range(6)))

    def forward(self, data):
        x, c = data
        return (self.blocks(x) * c).sum()


class Recurrent(nn.Module):
    """One layer; the loss is <c, y>. The input rows need no gradient."""

    def __init__(self, case, batch_first):
        super().__init__()
        self.rnn = {"gru": nn.GRU, "lstm": nn.LSTM}[case](32, 32, batch_first=batch_first)

    def forward(self, data):
        x, c = data
        return (self.rnn(x)[0] * c).sum()


class Rows(nn.Module):
    """A table of a million rows; the loss is <c, y> on the rows of a batch."""

    def __init__(self, is_sparse):
        super().__init__()
        self.rows = nn.Embedding(1_000_000, 64, sparse=is_sparse)

    def forward(self, data):
        ids, c = data
        return (self.rows(ids) * c).sum()


class Variant:
    """A network with its optimizer, ready for timing."""

    def __init__(self, case, batch, name, optimizer, compiled):
        torch.manual_seed(0)
        self.batch = batch
        dropped = case.endswith("-dropout")
        if case.startswith("sasrec"):
            self.net = Sasrec(0.2 if dropped else 0.0)
            self.data = [torch.randint(ITEMS, (3, batch, LENGTH)).unbind() for _ in range(4)]
        elif case == "embedding":
            self.net = Rows(optimizer == "sparse")
            c = 1e-4 * torch.randn(batch, 64)
            self.data = [(torch.randint(1_000_000, (batch,)), c) for _ in range(4)]
        elif case in ("gru", "lstm"):
            batch_first = name == "batch_first"
            self.net = Recurrent(case, batch_first)
            rows = torch.randn(2, *((batch, 50) if batch_first else (50, batch)), 32)
            self.data = [(rows[0], 1e-4 * rows[1])]
        else:
            self.net = Encoder(0.1 if dropped else 0.0, name == "TransformerEncoderLayer")
            rows = torch.randn(2, batch, 128, 384)
            self.data = [(rows[0], 1e-4 * rows[1])]
        self.net.train()
        if optimizer == "sparse":
            self.optimizer = torch.optim.SparseAdam(self.net.parameters(), lr=1e-3)
        else:
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, **{optimizer: True})
        self.forward = torch.compile(self.net) if compiled else self.net
        self.name = ", ".join([name, optimizer] + ["compile"] * compiled)

    def step(self, i):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(self.data[i % len(self.data)]).backward()
        self.optimizer.step()

    def rate(self, seconds):
        """Sequences per second over about `seconds` seconds."""
        steps, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            self.step(steps)
            steps += 1
        return steps * self.batch / spent


def variants(case, batch, compiled):
    """The variants that run here; a compiler may be missing."""
    names = {
        "gru": ["batch_first", "time first"], "lstm": ["batch_first", "time first"],
        "sasrec": ["SDPA"], "encoder": ["SDPA", "TransformerEncoderLayer"], "embedding": ["Embedding"],
    }[case.removesuffix("-dropout")]  # fmt: skip
    optimizers = ("sparse", "fused") if case == "embedding" else ("foreach", "fused")
    for name in names:
        for optimizer in optimizers:
            for compile_ in (False, True) if compiled else (False,):
                try:
                    variant = Variant(case, batch, name, optimizer, compile_)
                    variant.step(0)
                except Exception as error:  # noqa: BLE001, a variant that does not run is not the best
                    warnings.warn(f"{case}: {name}: {str(error)[:200]}", stacklevel=1)
                    continue
                yield variant
