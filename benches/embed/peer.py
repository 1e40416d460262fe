"""The peer's side: trains one model on DATA and prints one line of JSON, like `bench-embed`.

usage: peer.py METHOD DATA SETTINGS THREADS SEED [PREFIX]

SETTINGS are ours; they are translated here where names or meanings differ.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np


def lists(path):
    with open(path, encoding="ascii") as file:
        return [line.split() for line in file]


def by_number(keyed, n=None):
    """Vectors of gensim in the order of our numbers; zeros for numbers that do not occur."""
    numbers = np.array([int(key) for key in keyed.index_to_key])
    out = np.zeros((n or int(numbers.max()) + 1, keyed.vector_size), np.float32)
    out[numbers] = keyed.vectors
    return out


def gensim_training(model, path, epochs):
    begin = time.perf_counter()
    model.build_vocab(corpus_file=path)
    prepared = time.perf_counter() - begin
    begin = time.perf_counter()
    model.train(
        corpus_file=path, total_examples=model.corpus_count, total_words=model.corpus_total_words,
        epochs=epochs,
    )  # fmt: skip
    return prepared, time.perf_counter() - begin, model.corpus_total_words


def gensim_settings(given, threads, seed):
    return {
        "vector_size": given["dim"], "window": given.get("window", 5), "hs": 0, "min_count": 1,
        "negative": given["negatives"], "ns_exponent": 0.75, "sample": given.get("subsample", 0.0),
        "alpha": given["lr"], "min_alpha": given["lr"] / 100, "workers": threads,
        "epochs": given["epochs"], "seed": seed,
    }  # fmt: skip


def item2vec(path, given, threads, seed):
    from gensim.models import Word2Vec

    model = Word2Vec(sg=0 if given.get("cbow") else 1, **gensim_settings(given, threads, seed))
    return *gensim_training(model, path, given["epochs"]), {"item": by_number(model.wv)}


def doc2vec(path, given, threads, seed):
    from gensim.models import Doc2Vec

    # dbow_words = 0 and dm_mean = 1 are gensim's defaults, like ours.
    model = Doc2Vec(dm=int(given.get("algorithm") == "dm"), **gensim_settings(given, threads, seed))
    return *gensim_training(model, path, given["epochs"]), {"doc": model.dv.vectors}


def matrix(path):
    from scipy.sparse import csr_matrix

    rows = [np.array(line, np.int32) for line in lists(path)]
    user = np.repeat(np.arange(len(rows), dtype=np.int32), [len(row) for row in rows])
    item = np.concatenate(rows)
    shape = (len(rows), int(item.max()) + 1)
    return csr_matrix((np.ones(len(item), np.float32), (user, item)), shape=shape)


def implicit_training(model, path):
    choices = matrix(path)
    begin = time.perf_counter()
    model.fit(
        choices, show_progress=False
    )  # starts with random factors: includes a little preparation
    seconds = time.perf_counter() - begin
    return 0.0, seconds, choices.nnz, {"user": model.user_factors, "item": model.item_factors}


def bpr(path, given, threads, seed):
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    # It always learns biases, draws negatives by popularity and skips those that the user chose.
    model = BayesianPersonalizedRanking(
        factors=given["dim"], learning_rate=given["lr"], regularization=given["weight-decay"],
        iterations=given["epochs"], num_threads=threads, random_state=seed,
    )  # fmt: skip
    return implicit_training(model, path)


def als(path, given, threads, seed):
    from implicit.cpu.als import AlternatingLeastSquares

    # Its confidence of a choice is alpha r, ours 1 + alpha r; it takes 3 steps of cg.
    assert given.get("cg-steps", 3) == 3
    model = AlternatingLeastSquares(
        factors=given["dim"], regularization=given["weight-decay"], alpha=1.0 + given["alpha"],
        use_cg=True, iterations=given["epochs"], num_threads=threads, random_state=seed,
    )  # fmt: skip
    return implicit_training(model, path)


def peak_bytes():
    """Of this process alone: getrusage would include the memory of its parent at the fork."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    found = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(found[0]) if found else None


METHODS = {"item2vec": item2vec, "doc2vec": doc2vec, "bpr": bpr, "als": als}


def main(method, path, settings, threads, seed, prefix=None):
    given = json.loads(settings)
    out = METHODS[method](path, given, int(threads), int(seed))
    prepared, seconds, samples, tables = out
    if prefix:
        for name, table in tables.items():
            Path(f"{prefix}.{name}.f32").write_bytes(np.ascontiguousarray(table, "<f4").tobytes())
    result = {
        "prepare_seconds": prepared, "train_seconds": seconds, "epochs": given["epochs"],
        "samples": samples, "samples_per_second": samples * given["epochs"] / seconds, "loss": None,
        "peak_bytes": peak_bytes(), "shapes": {name: list(table.shape) for name, table in tables.items()},
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    if not 6 <= len(sys.argv) <= 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
