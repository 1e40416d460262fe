"""Writes layers.json and models.json beside it: forward, loss and gradients of layers and models by PyTorch in f64.

Run by hand: pip install torch==2.15.0 numpy==2.4.6 && python nets.py

Weights and inputs are not stored: entry k of tensor t is a hash of both, the same bits in every language. With all operations on
unsigned 64 bits,

    z = (t 2^32 + k + 1) 0x9E3779B97F4A7C15,  z = (z ^ z >> 30) 0xBF58476D1CE4E5B9,
    z = (z ^ z >> 27) 0x94D049BB133111EB,  z = z ^ z >> 31,  u(t, k) = (z >> 11) 2^-52 - 1   (splitmix64; u in [-1, 1))

and, by the name and shape of the tensor,

    weight of several dimensions   u sqrt(6 / (product of all dimensions but the first))
    weight of one dimension        1 + 0.2 u        bias, running_mean   0.1 u        running_var   1 + 0.5 u

t is the tensor's position in the state_dict without num_batches_tracked. The input is tensor 1000, u times 2, n x c x h x w
(PyTorch's order); of a layer the loss is sum_k c_k y_k with c = u of tensor 2000. The class of sample i of a model is (3 i + 1) mod 10.

A gradient of a model is told by its sum, its sum of squares, and its entries at k = floor(j (len - 1) / 4), j = 0..4.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

torch.set_default_dtype(torch.float64)
INPUT, COTANGENT = 1000, 2000


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
    if name.endswith("weight") and len(shape) > 1:
        return u * np.sqrt(6.0 / np.prod(shape[1:]))
    if name.endswith("running_var"):
        return 1 + 0.5 * u
    return 1 + 0.2 * u if name.endswith("weight") else 0.1 * u


def tensors_of(model):
    return [
        (t, name, value)
        for t, (name, value) in enumerate(
            item
            for item in model.state_dict().items()
            if not item[0].endswith("num_batches_tracked")
        )
    ]


def fill(model):
    with torch.no_grad():
        for t, name, value in tensors_of(model):
            value.copy_(tensor(t, name, value.shape))
    return model


def values(x):
    return x.detach().flatten().tolist()


# Layers


def layer(name, module, shape, mode="train", after=None, **options):
    x = (2 * mixed(INPUT, int(np.prod(shape)))).reshape(shape).requires_grad_()
    if isinstance(module, nn.Module):
        fill(module)
        module.train(mode == "train")
    y = after(module(x)) if after else module(x)
    (y * mixed(COTANGENT, y.numel()).reshape(y.shape)).sum().backward()
    case = {
        "layer": name, "options": options, "mode": mode, "input": list(shape),
        "output": list(y.shape), "y": values(y), "dx": values(x.grad),
    }  # fmt: skip
    if isinstance(module, nn.Module):
        case["gradients"] = {n: values(p.grad) for n, p in module.named_parameters()}
        case["buffers"] = {n: values(b) for n, b in module.named_buffers() if b.ndim}
    return case


def normalized(sigma):
    """Mean 0 and variance 1 under N(0, 1): Simpson's rule on both sides of 0, where relu has a kink."""
    z = np.linspace(0, 14, 200_001)
    w = np.full(len(z), 2.0)
    w[1::2], w[0], w[-1] = 4.0, 1.0, 1.0
    w *= (z[1] - z[0]) / 3
    z, w = np.concatenate([-z[::-1], z]), np.concatenate([w[::-1], w])
    w *= np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    s = sigma(torch.from_numpy(z)).numpy()
    mean = (w * s).sum()
    deviation = np.sqrt((w * (s - mean) ** 2).sum())
    return lambda x: (sigma(x) - mean) / deviation


def padded(x):
    """The shortcut of option A (He et al. 2015) that doubles the channels."""
    side = x.shape[1] // 2
    return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, side, side))


def conv(shape, outputs, kernel, **options):
    module = nn.Conv2d(shape[1], outputs, kernel, **options)
    return layer("conv", module, shape, inputs=shape[1], outputs=outputs, kernel=kernel, **options)


ACTIVATIONS = {
    "relu": torch.relu, "gelu": functional.gelu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "softplus": functional.softplus, "erf": torch.erf,
}  # fmt: skip


def layers():
    image = (2, 4, 6, 5)
    cases = [
        layer("linear", nn.Linear(5, 3), (4, 5), inputs=5, outputs=3, bias=True),
        layer("linear", nn.Linear(3, 6, bias=False), (2, 3), inputs=3, outputs=6, bias=False),
        conv(image, 3, 3),
        conv(image, 3, 3, padding=1),
        conv(image, 3, 3, padding=1, bias=False),
        conv(image, 3, 3, stride=2, padding=1),
        conv(image, 6, 1, stride=2, bias=False),
        conv(image, 2, 5, stride=1, padding=2),
        conv(image, 2, 2, stride=3, padding=0),
        conv(image, 6, 3, stride=1, padding=1, groups=2),
        conv(image, 6, 3, stride=2, padding=1, groups=2, bias=False),
        conv(image, 4, 3, stride=1, padding=1, groups=4),
        conv(image, 4, 3, stride=2, padding=1, groups=4),
        conv(image, 8, 3, stride=1, padding=1, groups=4),
        layer("max-pool", nn.MaxPool2d(2), image, size=2, stride=2, padding=0),
        layer("max-pool", nn.MaxPool2d(3, 2, 1), image, size=3, stride=2, padding=1),
        layer("average-pool", nn.AvgPool2d(2), image, size=2, stride=2, padding=0),
        layer("average-pool", nn.AvgPool2d(3, 1), image, size=3, stride=1, padding=0),
        layer("average-pool", nn.AvgPool2d(3, 2, 1), image, size=3, stride=2, padding=1),
        layer("global-average", lambda x: x.mean(dim=(2, 3)), image),
        layer("flatten", lambda x: x.flatten(1), image),
        layer("padding-shortcut", padded, (2, 4, 6, 6), inputs=4, outputs=8),
    ]
    for mode in ("train", "eval"):
        for relu in (False, True):
            then = {"after": torch.relu if relu else None, "relu": relu}
            cases.append(layer("batch-norm", nn.BatchNorm2d(4), image, mode, channels=4, **then))
            cases.append(layer("batch-norm", nn.BatchNorm1d(3), (5, 3), mode, channels=3, **then))
    for name, sigma in ACTIVATIONS.items():
        cases.append(layer("activation", sigma, (3, 8), kind=name, normalized=False))
        cases.append(layer("activation", normalized(sigma), (3, 8), kind=name, normalized=True))
    return cases


# Models


def mlp(inputs, hidden, outputs, activation):
    parts = []
    for width in hidden:
        parts += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*parts, nn.Linear(inputs, outputs))


class SmallCnn(nn.Module):
    """cnn-small for 28 x 28."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, outputs)

    def forward(self, x):
        x = functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Blocks(nn.Module):
    """cnn:8,8,max,16,max."""

    def __init__(self, channels, plan, outputs):
        super().__init__()
        self.plan = plan
        for i, width in enumerate(plan):
            if width != "max":
                setattr(self, f"conv{i}", nn.Conv2d(channels, width, 3, padding=1, bias=False))
                setattr(self, f"bn{i}", nn.BatchNorm2d(width))
                channels = width
        self.fc = nn.Linear(channels, outputs)

    def forward(self, x):
        for i, width in enumerate(self.plan):
            if width == "max":
                x = functional.max_pool2d(x, 2)
            else:
                x = torch.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
        return self.fc(x.mean(dim=(2, 3)))


class Block(nn.Module):
    """Two convolutions and a shortcut: `option` A pads channels, B projects (He et al. 2015)."""

    def __init__(self, inputs, outputs, stride, option):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.pad = option == "A" and inputs != outputs
        self.shortcut = nn.Sequential()
        if option == "B" and (stride > 1 or inputs != outputs):
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (padded(x) if self.pad else self.shortcut(x)))


class ResNet(nn.Module):
    """For 32 x 32: akamaster/pytorch_resnet_cifar10 (A) and kuangliu/pytorch-cifar (B)."""

    def __init__(self, widths, blocks, option):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        for i, (width, count) in enumerate(zip(widths, blocks, strict=True), 1):
            stage = []
            for b in range(count):
                stage.append(Block(inputs, width, 2 if i > 1 and b == 0 else 1, option))
                inputs = width
            setattr(self, f"layer{i}", nn.Sequential(*stage))
        self.stages = len(widths)
        self.linear = nn.Linear(inputs, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for i in range(1, self.stages + 1):
            x = getattr(self, f"layer{i}")(x)
        return self.linear(x.mean(dim=(2, 3)))


def digest(x):
    x = x.detach().flatten()
    at = [j * (len(x) - 1) // 4 for j in range(5)]
    return {"sum": x.sum().item(), "squares": (x * x).sum().item(), "entries": x[at].tolist()}


def model(name, make, shape, smoothing=0.0):
    result = {
        "model": name,
        "input": list(shape),
        "smoothing": smoothing,
        "tensors": [{"name": n, "shape": list(v.shape)} for _, n, v in tensors_of(make())],
    }
    for mode in ("train", "eval"):
        net = fill(make()).train(mode == "train")
        x = (2 * mixed(INPUT, int(np.prod(shape)))).reshape(shape).requires_grad_()
        f = net(x)
        labels = (3 * torch.arange(shape[0]) + 1) % 10
        loss = functional.cross_entropy(f, labels, label_smoothing=smoothing)
        loss.backward()
        result[mode] = {
            "outputs": values(f),
            "loss": loss.item(),
            "dx": digest(x.grad),
            "gradients": {n: digest(p.grad) for n, p in net.named_parameters()},
            "buffers": {n: digest(b) for n, b in net.named_buffers() if b.ndim},
        }
        if mode == "eval":
            del result[mode]["buffers"]  # as they were
    return result


def models():
    image = (3, 3, 32, 32)
    return [
        model("mlp:20,16 relu", lambda: mlp(12, [20, 16], 10, nn.ReLU), (4, 12)),
        model("mlp:20,16 tanh", lambda: mlp(12, [20, 16], 10, nn.Tanh), (4, 12), 0.1),
        model("cnn-small", lambda: SmallCnn(1, 10), (3, 1, 28, 28)),
        model(
            "cnn:8,8,max,16,max", lambda: Blocks(3, [8, 8, "max", 16, "max"], 10), (4, 3, 12, 12)
        ),
        model("resnet20", lambda: ResNet([16, 32, 64], [3, 3, 3], "A"), image),
        model("resnet18", lambda: ResNet([64, 128, 256, 512], [2, 2, 2, 2], "B"), image),
    ]


for name, cases in (("layers", layers()), ("models", models())):
    head = {"torch": torch.__version__, "numbers": __doc__.split("\n\n", 2)[2]}
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = json.dumps(head, indent=1)[:-2] + f',\n "{name}": [\n{lines}\n]\n}}\n'
    Path(__file__).with_name(f"{name}.json").write_text(text)
