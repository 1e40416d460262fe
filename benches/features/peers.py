"""The peers: scikit-learn, numpy in every variant that might be its fastest, and the bare product."""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits

THREADS = 2  # run.sh sets the same for the BLAS
BLOCKS = (64, 128, 256, 512, 1024, 2048, 4096)
SINGLE_ROWS = 200
WHOLE = "in one call"


@dataclass
class Form:
    """One way to compute the same result."""

    name: str
    job: Callable[[], None]
    blas_threads: int = THREADS
    # Layout of the output, and whether numpy runs on several Python threads.
    interleaved: bool = False
    python_threads: int = 1


def best_of(job, runs=5, seconds=1.0):
    """The best of at least `runs` runs and `seconds`, after a warm-up run."""
    job()
    best, n, start = math.inf, 0, time.perf_counter()
    while n < runs or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - begin)
        n += 1
    return best


def timed(form, **how):
    with threadpool_limits(limits=form.blas_threads):
        return best_of(form.job, **how)


def shortlist(forms, keep=3):
    """The variants that are fastest in a brief timing; only they are timed in full."""
    return sorted(forms, key=lambda form: timed(form, runs=3, seconds=0.0))[:keep]


class Numpy:
    """phi with numpy: normalize rows, project, cosine and sine, scale.

    Every buffer is made before the clock runs. Forms differ in the order of the output (cosine and
    sine side by side, or all cosines before all sines), in when the scale is applied, in the rows
    taken at once, and in who provides the threads: the BLAS, or two Python threads with one BLAS
    thread each (numpy's own sine and cosine use one thread).
    """

    def __init__(self, rows, u, pool):
        self.rows, self.u, self.pool = rows, u, pool
        self.m = u.shape[1]
        self.out = np.empty((len(rows), 2 * self.m), np.float32)
        self.scale = np.float32(1.0 / math.sqrt(self.m))

    def forms(self):
        for interleaved in (False, True):
            for scale_late in (False, True):
                yield from self._sizes(interleaved, scale_late)

    def _sizes(self, interleaved, scale_late):
        n = len(self.rows)
        order = "interleaved" if interleaved else "concatenated"
        order += ", scaled at the end" if scale_late else ""
        whole = self._worker(interleaved, scale_late, n)
        yield Form(f"{order}, whole", lambda: whole(0, n), interleaved=interleaved)
        for block in (b for b in BLOCKS if b < n):
            work = self._worker(interleaved, scale_late, block)
            name = f"{order}, blocks of {block}"
            yield Form(name, lambda w=work, b=block: blocks(w, 0, n, b), interleaved=interleaved)
            workers = [self._worker(interleaved, scale_late, block) for _ in range(THREADS)]
            job = split(self.pool, workers, n, block)
            name += f", {THREADS} Python threads"
            yield Form(name, job, 1, interleaved, THREADS)

    def _worker(self, interleaved, scale_late, size):
        """A function of a range of rows, with its own scratch memory for `size` of them."""
        d, m = self.rows.shape[1], self.m
        y, a, t = (np.empty((size, width), np.float32) for width in (d, m, m))

        def work(start, stop):
            n = stop - start
            x, out = self.rows[start:stop], self.out[start:stop]
            normalized, projected, cosine = y[:n], a[:n], t[:n]
            lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
            np.divide(x, lengths[:, None], out=normalized)
            np.matmul(normalized, self.u, out=projected)
            if interleaved:
                cosines, sines = out[:, 0::2], out[:, 1::2]
            else:
                cosines, sines = out[:, :m], out[:, m:]
            if scale_late:
                np.cos(projected, out=cosines)
                np.sin(projected, out=sines)
                np.multiply(out, self.scale, out=out)
            else:
                np.cos(projected, out=cosine)
                np.multiply(cosine, self.scale, out=cosines)
                np.sin(projected, out=projected)
                np.multiply(projected, self.scale, out=sines)

        return work

    def phi(self, form, picked):
        """The last output of `form` for some rows, cosine and sine interleaved."""
        out = self.out[picked]
        if form.interleaved:
            return out.copy()
        return np.stack([out[:, : self.m], out[:, self.m :]], axis=2).reshape(len(out), -1)


def products(rows, u, pool):
    """Variants of the bare product rows x directions: the machine's multiplication rate."""
    n = len(rows)
    out = np.empty((n, u.shape[1]), np.float32)
    yield Form(WHOLE, lambda: np.matmul(rows, u, out=out))
    # Into the same few result rows repeatedly: times the multiplication, not the stores.
    for block in (b for b in BLOCKS if b < n):
        scratch = [np.empty((block, u.shape[1]), np.float32) for _ in range(THREADS)]

        def in_cache(start, stop, to=scratch[0]):
            np.matmul(rows[start:stop], u, out=to[: stop - start])

        workers = [lambda start, stop, to=to: in_cache(start, stop, to) for to in scratch]
        yield Form(f"blocks of {block}", lambda w=in_cache, b=block: blocks(w, 0, n, b))
        job = split(pool, workers, n, block)
        yield Form(f"blocks of {block}, {THREADS} Python threads", job, 1)


def blocks(work, start, stop, block):
    for first in range(start, stop, block):
        work(first, min(first + block, stop))


def split(pool, workers, n, block):
    """A job that assigns each worker its share of the blocks, on its own thread."""
    per_worker = -(-n // len(workers))
    edges = [min(i * per_worker, n) for i in range(len(workers) + 1)]

    def job():
        shares = [
            pool.submit(blocks, work, start, stop, block)
            for work, start, stop in zip(workers, edges[:-1], edges[1:], strict=True)
        ]
        for share in shares:
            share.result()

    return job


def python_threads():
    return ThreadPoolExecutor(max_workers=THREADS)


def sklearn_sampler(unit_rows, width):
    """RBFSampler for the kernel exp(-|x - y|^2 / 2) on rows of unit length."""
    return RBFSampler(gamma=0.5, n_components=width, random_state=0).fit(unit_rows)


def numpy_single_row(rows, u):
    """Seconds for one row at a time on one thread, in the faster of two layouts of U."""
    d, m = u.shape
    out, a = np.empty(2 * m, np.float32), np.empty(m, np.float32)
    y, scale = np.empty(d, np.float32), np.float32(1.0 / math.sqrt(m))
    by_direction = np.ascontiguousarray(u.T)
    some = list(rows[:SINGLE_ROWS])

    def phi(project):
        for x in some:
            np.multiply(x, np.float32(1.0 / math.sqrt(x.dot(x))), out=y)
            project()
            np.cos(a, out=out[:m])
            np.sin(a, out=out[m:])
            np.multiply(out, scale, out=out)

    with threadpool_limits(limits=1):
        times = [
            best_of(lambda: phi(lambda: np.dot(y, u, out=a))),
            best_of(lambda: phi(lambda: np.dot(by_direction, y, out=a))),
        ]
    return min(times) / len(some)
