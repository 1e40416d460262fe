"""PyTorch's side: training steps of the same networks, in every variant that might be its best."""

import time
import warnings

import torch
from torch import nn
from torch.nn import functional


def mlp():
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def cnn_small():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet18():
    """For 32 x 32, as in kuangliu/pytorch-cifar."""
    parts = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    inputs = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            parts.append(Block(inputs, width, 2 if stage and not block else 1))
            inputs = width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def adam(**options):
    return lambda parameters: torch.optim.Adam(parameters, lr=1e-3, **options)


def sgd(**options):
    return lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, **options)


MODELS = {
    "mlp": (mlp, (784,), adam),
    "cnn-small": (cnn_small, (1, 28, 28), adam),
    "resnet18": (resnet18, (3, 32, 32), sgd),
}


class Variant:
    """A network with its optimizer, ready for timing."""

    def __init__(self, case, batch, channels_last, optimizer, compiled):
        torch.manual_seed(0)
        make, shape, rule = MODELS[case]
        self.case, self.batch = case, batch
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.net = make().train()
        self.x = [torch.rand(batch, *shape) for _ in range(4)]
        if len(shape) > 1:
            self.net = self.net.to(memory_format=layout)
            self.x = [x.contiguous(memory_format=layout) for x in self.x]
        self.y = [torch.randint(10, (batch,)) for _ in range(4)]
        self.optimizer = rule(**{optimizer: True})(self.net.parameters())
        self.forward = torch.compile(self.net) if compiled else self.net
        parts = [optimizer] + ["channels_last"] * channels_last + ["compile"] * compiled
        self.name = ", ".join(parts)

    def step(self, i):
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.forward(self.x[i % 4]), self.y[i % 4])
        loss.backward()
        self.optimizer.step()

    def rate(self, seconds):
        """Samples per second over about `seconds` seconds."""
        steps, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            self.step(steps)
            steps += 1
        return steps * self.batch / spent


def variants(case, batch, compiled):
    """The variants that run here; a compiler may be missing."""
    layouts = (False,) if case == "mlp" else (False, True)
    for layout in layouts:
        for optimizer in ("foreach", "fused"):
            for compile_ in (False, True) if compiled else (False,):
                try:
                    variant = Variant(case, batch, layout, optimizer, compile_)
                    variant.rate(0.0 if case == "resnet18" else 0.2)
                    variant.step(0)
                except Exception as error:  # noqa: BLE001, a variant that does not run is not the best
                    warnings.warn(f"{case}: {optimizer}: {str(error)[:200]}", stacklevel=1)
                    continue
                yield variant
