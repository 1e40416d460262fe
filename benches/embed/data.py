"""The data of a run: text files with one list of integers per line, which both sides read."""

import csv
import gzip
import io
import itertools
import lzma
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np

WORDS, TOPICS, LENGTH = 100_000, 100, 100
PAIRS = 20_000  # of words
RARE = 3  # words of reviews that occur less often are dropped


class AbsentError(Exception):
    """The data of a case does not exist."""


def opened(path, encoding="utf-8"):
    if not path.exists():
        raise AbsentError(f"{path} does not exist; set the folder of the datasets with --data")
    kind = lzma if path.suffix == ".xz" else gzip
    return io.TextIOWrapper(kind.open(path), encoding=encoding, newline="")


def write_lists(path, lists):
    """By a rename: another run may be reading the file."""
    partial = path.with_suffix(f".partial-{os.getpid()}")
    with partial.open("w", encoding="ascii") as file:
        file.writelines(" ".join(map(str, values)) + "\n" for values in lists)
    partial.rename(path)


class Movies:
    """MovieLens-1M: the choices of every user in the order of time, without the last one.

    Movies are numbered by descending count; `last` is the held-out movie, `genres` a 0/1 matrix.
    """

    def __init__(self, source, folder):
        with opened(source / "ml-1m/ratings.dat.xz") as file:
            rows = np.array([line.split("::") for line in file], dtype=np.int64)
        order = np.lexsort((np.arange(len(rows)), rows[:, 3], rows[:, 0]))
        user, movie = rows[order, 0], rows[order, 1]
        ends = np.flatnonzero(np.append(user[1:] != user[:-1], True))
        kept = np.delete(movie, ends)
        counts = Counter(kept.tolist())
        every = sorted(set(movie.tolist()), key=lambda m: (-counts[m], m))
        number = {m: n for n, m in enumerate(every)}
        self.items = len(every)
        self.counts = np.array([counts[m] for m in every])
        self.last = np.array([number[m] for m in movie[ends].tolist()])
        bounds = np.concatenate([[0], ends + 1])
        self.seen = [
            [number[m] for m in movie[a : b - 1].tolist()] for a, b in itertools.pairwise(bounds)
        ]
        self.path = folder / "ml-1m.txt"
        write_lists(self.path, self.seen)
        self.genres = genres(source / "ml-1m/movies.dat.gz", number)


def genres(path, number):
    with opened(path, "latin-1") as file:
        fields = [line.rstrip("\r\n").split("::") for line in file]
    names = sorted({name for _, _, of in fields for name in of.split("|")})
    matrix = np.zeros((len(number), len(names)), bool)
    for movie, _, of in fields:
        if int(movie) in number:
            matrix[number[int(movie)], [names.index(name) for name in of.split("|")]] = True
    return matrix


class Reviews:
    """imdb-10k as lowercase words, numbered by descending count."""

    def __init__(self, source, folder):
        with opened(source / "imdb-10k/imdb_10k.csv.xz") as file:
            rows = list(csv.DictReader(file))
        texts = [words_of(row["text"]) for row in rows]
        counts = Counter(word for text in texts for word in text)
        words = sorted((w for w in counts if counts[w] >= RARE), key=lambda w: (-counts[w], w))
        self.number = {word: n for n, word in enumerate(words)}
        self.path = folder / "imdb-10k.txt"
        write_lists(self.path, (self.numbers(text) for text in texts))
        self.positive = np.array([row["label"] == "1" for row in rows])
        self.train = np.array([row["split"] == "train" for row in rows])

    def numbers(self, words):
        return [self.number[word] for word in words if word in self.number]


def words_of(text):
    return re.findall(r"[a-z0-9']+", text.replace("<br />", " ").lower())


class Words(Reviews):
    """imdb-10k with the association of word pairs in 20,000 other reviews.

    PMI = ln(N n_ab / (n_a n_b)) where n counts the N other reviews that have a word or both, and n_ab + 1/2 stands for
    n_ab. `pairs` are drawn among words of 200 to 4,000 reviews that are expected together in at least 5.
    """

    def __init__(self, source, folder):
        super().__init__(source, folder)
        with opened(source / "imdb-unlabelled-20k/reviews.txt.xz") as file:
            others = [sorted(set(self.numbers(words_of(line)))) for line in file]
        n = len(others)
        counts = np.bincount(np.concatenate(others), minlength=len(self.number))
        known = np.flatnonzero((counts >= 200) & (counts <= 4_000))
        place = {word: at for at, word in enumerate(known.tolist())}
        has = np.zeros((n, len(known)), np.float32)
        for row, words in zip(has, others, strict=True):
            row[[place[word] for word in words if word in place]] = 1
        draw = np.random.default_rng(20261118)
        a, b = draw.integers(len(known), size=(2, 8 * PAIRS))
        expected = counts[known[a]] * counts[known[b]] / n
        kept = np.flatnonzero((a < b) & (expected >= 5))[:PAIRS]
        a, b, expected = a[kept], b[kept], expected[kept]
        self.pairs = known[np.stack([a, b])]
        self.pmi = np.log(((has.T @ has)[a, b] + 0.5) / expected)


class Zipf:
    """A corpus with Zipf's law and planted topics.

    Every line has a topic. Word w comes with probability proportional to 1 / (w + 1); with probability 1/2
    it is then replaced by the word of the line's topic in the same block of 100 words.
    """

    def __init__(self, tokens, folder):
        self.items = WORDS
        self.path = folder / f"zipf-{tokens}.txt"
        if self.path.exists():
            return
        draw = np.random.default_rng(20261116)
        law = np.cumsum(1.0 / np.arange(1, WORDS + 1))
        partial = self.path.with_suffix(".partial")
        with partial.open("w", encoding="ascii") as file:
            for start in range(0, tokens // LENGTH, 10_000):
                lines = min(10_000, tokens // LENGTH - start)
                word = np.searchsorted(law, law[-1] * draw.random((lines, LENGTH)))
                topic = draw.integers(TOPICS, size=(lines, 1))
                own = draw.random((lines, LENGTH)) < 0.5
                word = np.where(own, word // TOPICS * TOPICS + topic, word)
                file.writelines(" ".join(map(str, line)) + "\n" for line in word.tolist())
        partial.rename(self.path)


def found(given, root):
    """The folder of the datasets."""
    return Path(given) if given else root.parent / "shared" / "data"
