"""The peers' side: one job of one library per process, one line of JSON; run.py compares it with ours.

peer.py JOB NAME=VALUE ..; files in dir= are values of one type without a header, as our side writes and reads them.
"""

import itertools
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np


class Meter:
    """Seconds of the clock and of the processors, and the memory above what was resident before."""

    def __init__(self):
        self.before = resident()
        self.start, self.used = time.perf_counter(), time.process_time()

    def stop(self):
        return {
            "seconds": time.perf_counter() - self.start,
            "cpu_seconds": time.process_time() - self.used,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            - self.before,
        }


def resident():
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


def read(options, name, kind):
    return np.fromfile(Path(options["dir"]) / name, dtype=kind)


# Networks


def torch_with(options):
    import torch

    torch.set_num_threads(int(options.get("threads", 2)))
    return torch


def network(options):
    """The network of our side by name, with its weights if it has written some."""
    import torch
    from torch import nn
    from torch.nn import functional

    def dense(*widths):
        parts = []
        for a, b in itertools.pairwise(widths):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*parts[:-1])

    def padded(x):
        side = x.shape[1] // 2
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, side, side))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.pad = inputs != outputs

        def forward(self, x):
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + (padded(x) if self.pad else x))

    def resnet20():
        parts = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        inputs = 16
        for stage, width in enumerate((16, 32, 64)):
            for block in range(3):
                parts.append(Block(inputs, width, 2 if stage and not block else 1))
                inputs = width
        return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    name = options["net"]
    if name.startswith("mlp:"):
        widths = [int(width) for width in name.removeprefix("mlp:").split(",")]
        model = dense(784, *widths, int(options.get("classes", 10)))
    elif name == "cnn-small":
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    else:
        model = resnet20()
    path = Path(options["dir"]) / "weights.f32"
    if path.exists():
        values = torch.from_numpy(np.fromfile(path, dtype=np.float32))
        first = 0
        with torch.no_grad():
            for key, own in model.state_dict().items():
                if not key.endswith("num_batches_tracked"):
                    own.copy_(values[first : first + own.numel()].reshape(own.shape))
                    first += own.numel()
        assert first == len(values), "the weights of another network"
    return model.eval()


def images(options, values):
    """Samples in PyTorch's order: channels before positions."""
    import torch

    if options["net"] == "resnet20":
        values = values.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    elif options["net"].startswith("mlp"):
        values = values.reshape(-1, 784)
    else:
        values = values.reshape(-1, 1, 28, 28)
    return torch.from_numpy(np.ascontiguousarray(values))


def trntk(options):
    """torch.func: Jacobians of blocks of samples, contracted with each other parameter by parameter."""
    torch = torch_with(options)
    from torch.func import functional_call, jacrev, vmap

    model = network(options)
    n, block = int(options["n"]), int(options["block"])
    x = images(options, read(options, "inputs.f32", np.float32))[:n]
    weights = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def outputs(weights, x):
        return functional_call(model, (weights, buffers), (x[None],))[0]

    jacobian = vmap(jacrev(outputs), (None, 0))
    with torch.no_grad():
        jacobian(weights, x[:2])  # warm up
        whole = Meter()
        blocks, forming = [], Meter()
        for part in x.split(block):
            blocks.append([j.reshape(len(part), -1) for j in jacobian(weights, part).values()])
        formed = forming.stop()
        k = torch.zeros(n, n)
        contracting = Meter()
        for i, a in enumerate(blocks):
            for j, b in enumerate(blocks[: i + 1]):
                part = sum(p @ q.T for p, q in zip(a, b, strict=True))
                k[i * block : i * block + block, j * block : j * block + block] = part
                k[j * block : j * block + block, i * block : i * block + block] = part.T
        contracted = contracting.stop()
        size = k.diagonal().sqrt()
        k = k / torch.outer(size, size)
    done = whole.stop()
    ours = read(options, "k.f32", np.float32)
    side = int(len(ours) ** 0.5)
    difference = np.abs(ours.reshape(side, side)[:n, :n] - k.numpy()).max()
    # What a whole kernel needs at a time: the Jacobians of two blocks.
    two = sum(j.numel() for j in blocks[0]) * 4 * 2 / 1e6
    return {
        "run": done, "formed": formed, "contracted": contracted, "blocks": len(blocks),
        "difference": float(difference), "two_blocks_mb": two, "version": torch.__version__,
    }  # fmt: skip


def project(options):
    """traker's BasicProjector on gradients that are there already; drawing and multiplying, as it does for every batch."""
    torch = torch_with(options)
    from torch.func import functional_call, grad, vmap
    from trak.projectors import BasicProjector

    model = network(options)
    n, k, paired = int(options["n"]), int(options["k"]), int(options["paired"])
    x = images(options, read(options, "inputs.f32", np.float32))[:n]
    weights = {name: p.detach() for name, p in model.named_parameters()}
    difference = lambda w, x: (
        functional_call(model, w, (x[None],))[0] @ torch.tensor([1.0, -1.0] + [0.0] * 8)
    )
    parts = []
    with torch.no_grad():
        for part in x.split(64):
            gradients = vmap(grad(difference), (None, 0))(weights, part)
            parts.append(torch.cat([g.flatten(1) for g in gradients.values()], 1))
        g = torch.cat(parts)
        del parts
        meter = Meter()
        projector = BasicProjector(g.shape[1], k, seed=0, proj_type="rademacher", device="cpu")
        sketch = projector.project(g, model_id=0)
        run = meter.stop()
    unit = lambda v: v / v.norm(dim=1, keepdim=True)
    exact = unit(g[:paired].double()) @ unit(g[:paired].double()).T
    own = unit(sketch[:paired].double()) @ unit(sketch[:paired].double()).T
    off = ~torch.eye(len(exact), dtype=torch.bool)
    rms = ((own - exact)[off] ** 2).mean().sqrt().item()
    return {"run": run, "rms": rms, "version": installed("traker")}


def installed(package):
    from importlib.metadata import version

    return f"{package} {version(package)}"


def trak(options):
    """dattri's TRAK on the CPU."""
    torch = torch_with(options)
    from dattri.algorithm.trak import TRAKAttributor
    from dattri.task import AttributionTask
    from torch.utils.data import DataLoader, TensorDataset

    model = network(options)
    sets = []
    for rows, labels in (("rows.f32", "labels.u32"), ("queries.f32", "query_labels.u32")):
        x = images(options, read(options, rows, np.float32))
        y = torch.from_numpy(read(options, labels, np.uint32).astype(np.int64))
        sets.append(DataLoader(TensorDataset(x, y), batch_size=int(options["batch"])))

    def logits(params, data):
        x, y = data
        f = torch.func.functional_call(model, params, (x[None],))
        return torch.nn.functional.cross_entropy(f, y[None])

    def odds(params, data):
        log_p = -logits(params, data)
        return log_p - torch.log(1 - torch.exp(log_p))

    def probability(params, data):
        return torch.exp(-logits(params, data))

    meter = Meter()
    task = AttributionTask(loss_func=odds, model=model, checkpoints=model.state_dict())
    attributor = TRAKAttributor(
        task=task, correct_probability_func=probability, device="cpu",
        projector_kwargs={"proj_dim": int(options["k"]), "device": "cpu"},
    )  # fmt: skip
    with torch.no_grad():
        attributor.cache(sets[0])
        scores = attributor.attribute(sets[1])
    run = meter.stop()
    effects = scores.T.double().numpy()
    effects = np.nan_to_num(effects)
    np.ascontiguousarray(effects).tofile(Path(options["dir"]) / "peer.f64")
    return {"run": run, "version": installed("dattri")}


def labels(options):
    """cleanlab on predictions of five networks, each for the fifth of the rows that it was not trained on."""
    torch = torch_with(options)
    from cleanlab.rank import get_label_quality_scores
    from sklearn.metrics import average_precision_score
    from sklearn.model_selection import StratifiedKFold

    x = images(options, read(options, "rows.f32", np.float32))
    given = read(options, "labels.u32", np.uint32).astype(np.int64)
    wrong = read(options, "wrong.u32", np.uint32)
    y = torch.from_numpy(given)
    torch.manual_seed(0)
    (Path(options["dir"]) / "weights.f32").unlink(missing_ok=True)
    meter = Meter()
    p = np.zeros((len(y), int(options.get("classes", 10))))
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
    for train, held in folds.split(np.zeros(len(y)), given):
        model = network(options).train()
        adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        for _ in range(int(options["epochs"])):
            for batch in torch.from_numpy(train)[torch.randperm(len(train))].split(64):
                adam.zero_grad()
                torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                adam.step()
        with torch.no_grad():
            p[held] = torch.softmax(model.eval()(x[held]), 1).numpy()
    trained = meter.stop()
    precision = {}
    for method in ("self_confidence", "normalized_margin"):
        quality = get_label_quality_scores(given, p, method=method)
        precision[method] = float(average_precision_score(wrong, -quality))
    return {
        "training": trained, "run": meter.stop(), "average_precision": precision,
        "version": installed("cleanlab"),
    }  # fmt: skip


def logistic(options):
    """scikit-learn on a square root of K: |w|^2 is the norm of the kernel."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    k = read(options, "k.f32", np.float32)
    n = int(len(k) ** 0.5)
    k = k.reshape(n, n).astype(np.float64)
    y = read(options, "labels.u32", np.uint32)
    lam = float(options["lambda"])
    with threadpool_limits(int(options.get("threads", 2))):
        meter = Meter()
        values, vectors = np.linalg.eigh(k)
        features = vectors * np.sqrt(np.maximum(values, 0))
        decomposed = meter.stop()
        runs = []
        for tolerance in map(float, options.get("tolerances", "1e-4,1e-5,1e-6").split(",")):
            meter = Meter()
            fit = LogisticRegression(C=1 / (n * lam), tol=tolerance, max_iter=5000)
            fit.fit(features, y)
            run = meter.stop()
            s = features @ fit.coef_.T + fit.intercept_
            top = s.max(axis=1)
            data = top + np.log(np.exp(s - top[:, None]).sum(axis=1)) - s[np.arange(n), y]
            objective = data.mean() + lam / 2 * (fit.coef_**2).sum()
            runs.append({
                "run": run, "tolerance": tolerance, "objective": float(objective),
                "iterations": int(fit.n_iter_[0]),
            })  # fmt: skip
            if run["cpu_seconds"] > float(options.get("most", 200)):
                break
    return {"decomposed": decomposed, "runs": runs, "version": installed("scikit-learn")}


def ridge(options):
    """scikit-learn: Nystroem features of the same number of centers, then Ridge with the same penalty."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from threadpoolctl import threadpool_limits

    n, dim = int(options["n"]), int(options["dim"])
    x = read(options, "x.f32", np.float32).reshape(-1, dim)
    y = read(options, "y.f64", np.float64)
    gamma = 1 / (2 * float(options["length_scale"]) ** 2)
    with threadpool_limits(int(options.get("threads", 2))):
        meter = Meter()
        mean = y[:n].mean()
        map_ = Nystroem(gamma=gamma, n_components=int(options["centers"]), random_state=0)
        features = map_.fit_transform(x[:n])
        fit = Ridge(alpha=1e-3 * n, fit_intercept=False, solver="cholesky", copy_X=False)
        fit.fit(features, y[:n] - mean)
        run = meter.stop()
        fresh = slice(n, n + int(options["tested"]))
        error = fit.predict(map_.transform(x[fresh])) + mean - y[fresh]
    rmse = float(np.sqrt((error**2).mean()))
    return {"run": run, "rmse": rmse, "version": installed("scikit-learn")}


def kendall(options):
    from scipy.stats import kendalltau

    a, b = read(options, "a.f64", np.float64), read(options, "b.f64", np.float64)

    def of(a, b):
        best = None
        for _ in range(int(options.get("rounds", 3))):
            meter = Meter()
            tau = kendalltau(a, b).statistic
            run = meter.stop()
            best = run if best is None or run["seconds"] < best["seconds"] else best
        return {"tau": float(tau), "run": best}

    ties = of(np.round(a * 100) / 100, np.round(b * 100) / 100)
    return {"plain": of(a, b), "ties": ties, "version": installed("scipy")}


JOBS = (trntk, project, trak, labels, logistic, ridge, kendall)
if __name__ == "__main__":
    options = dict(pair.split("=", 1) for pair in sys.argv[2:])
    print(json.dumps({job.__name__: job for job in JOBS}[sys.argv[1]](options)))
