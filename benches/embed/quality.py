"""Quality of vectors: one short evaluator for both sides."""

import numpy as np
from data import TOPICS

K = 10


def padded(table, rows):
    """Zeros for items that were never seen."""
    return np.vstack([table, np.zeros((rows - len(table), table.shape[1]), table.dtype)])


def unit(table):
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    return table / np.where(norms > 0, norms, 1)


def neighbors(table, queries):
    """The K nearest neighbors of each query by cosine, without the query itself."""
    rows = unit(table)
    scores = rows[queries] @ rows.T
    scores[np.arange(len(queries)), queries] = -np.inf
    return np.argpartition(-scores, K, axis=1)[:, :K]


def genres(tables, movies):
    """Jaccard index of the genres of a movie and its ten neighbors, over movies with 20 choices."""
    item = padded(tables["item"], movies.items)
    queries = np.flatnonzero(movies.counts >= 20)
    near = movies.genres[neighbors(item, queries)]
    own = movies.genres[queries][:, None, :]
    return float(((near & own).sum(2) / (near | own).sum(2)).mean())


def ranks(scores, movies):
    """Rank of the held-out movie among the unseen ones; ties count as the mean rank."""
    for user, seen in enumerate(movies.seen):
        scores[user, seen] = -np.inf
    own = scores[np.arange(len(scores)), movies.last][:, None]
    return (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2


def hit_rate(tables, movies, last=5):
    """Share of users whose next movie is among the ten nearest to the mean of the last five."""
    item = unit(padded(tables["item"], movies.items))
    user = np.array([item[seen[-last:]].mean(0) for seen in movies.seen])
    return float((ranks(user @ item.T, movies) < K).mean())


def hit_rate_last(tables, movies):
    """The same for those nearest to the last one."""
    return hit_rate(tables, movies, last=1)


def ndcg(tables, movies):
    """NDCG@10 of the held-out movie, among all that the user has not seen."""
    place = ranks(tables["user"] @ padded(tables["item"], movies.items).T, movies)
    return float(np.where(place < K, 1 / np.log2(place + 2), 0).mean())


def topics(tables, corpus):
    """Share of the ten neighbors with the topic of the word, over words of medium frequency."""
    item = padded(tables["item"], corpus.items)
    queries = np.arange(2_000, 20_000, 9)
    return float((neighbors(item, queries) % TOPICS == (queries % TOPICS)[:, None]).mean())


def association(tables, corpus):
    """Spearman correlation over word pairs of their cosine and their PMI in reviews that nobody trained on."""
    from scipy.stats import spearmanr

    item = unit(tables["item"].astype(np.float64))
    cosine = (item[corpus.pairs[0]] * item[corpus.pairs[1]]).sum(1)
    return float(spearmanr(cosine, corpus.pmi).statistic)


def sentiment(tables, reviews):
    """Test accuracy of a logistic regression on the document vectors."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    x = StandardScaler().fit_transform(tables["doc"].astype(np.float64))
    model = LogisticRegression(C=0.01, max_iter=1000).fit(
        x[reviews.train], reviews.positive[reviews.train]
    )
    return float(model.score(x[~reviews.train], reviews.positive[~reviews.train]))
