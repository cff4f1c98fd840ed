"""Guess the topic of a paper from citations alone: features of random walks and logistic regression.

The graph is the largest component of cora, 2485 papers on 7 topics. Twenty papers of each topic are labelled
and all others are the test, for 20 random choices (``--choices``) that three methods share: walk features;
the rows of the adjacency matrix, for the same regression; and label propagation (Zhou et al. 2004), the limit
of F ← a S F + (1 − a) Y, where S is the normalised adjacency matrix and Y holds the known labels. Each has
one number to choose, and cross-validation among the labelled papers chooses it anew every time. Where cora
cannot be had, a random graph with planted blocks takes its place.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer
from threadpoolctl import threadpool_limits

import walkernel as wk
from walkernel.datasets import stochastic_block_model


class LabelPropagation(ClassifierMixin, BaseEstimator):
    """Labels that spread along the edges of a graph."""

    def __init__(self, graph, alpha=0.9):
        self.graph, self.alpha = graph, alpha

    def fit(self, nodes, y):
        """Spread the known labels until they hardly change."""
        known = np.zeros((self.graph.n_nodes, y.max() + 1))
        known[nodes, y] = 1
        S, scores = self.graph.to_scipy("normalized"), known
        for _ in range(500):
            last, scores = scores, self.alpha * (S @ scores) + (1 - self.alpha) * known
            if abs(scores - last).max() < 1e-9:
                break
        self.labels_ = scores.argmax(axis=1)
        return self

    def predict(self, nodes):
        """Return the label that came in strongest."""
        return self.labels_[nodes]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", nargs="?", default=".", type=Path, help="where the picture goes")
parser.add_argument("--choices", type=int, default=20, help="random choices of labelled papers")
options = parser.parse_args()

try:
    papers = wk.load_dataset("cora")
except (OSError, ImportError):
    papers = stochastic_block_model([200] * 7, p_within=0.025, p_between=0.0015)
graph, topics, A = papers.graph, papers.labels, papers.graph.to_scipy()

features = wk.NodeFeatures(graph, wk.Diffusion(4.0), n_walks=256)
model = make_pipeline(features, Normalizer(), LogisticRegression())
model = GridSearchCV(model, {"nodefeatures__kernel": [wk.Diffusion(sigma) for sigma in (2, 4, 6, 8)]})

rows = make_pipeline(FunctionTransformer(lambda nodes: A[nodes]), Normalizer(), LogisticRegression())
methods = {
    "walk features": model,
    "label propagation": GridSearchCV(LabelPropagation(graph), {"alpha": [0.8, 0.9, 0.95, 0.99]}),
    "adjacency rows": GridSearchCV(rows, {"logisticregression__C": [0.1, 1, 10, 100]}),
}
threadpool_limits(1)  # problems as small as these are slower on many threads
rng, accuracy = np.random.default_rng(0), np.zeros((3, options.choices))
members = [np.flatnonzero(topics == topic) for topic in np.unique(topics)]
for choice in range(options.choices):
    labelled = np.concatenate([rng.choice(nodes, 20, replace=False) for nodes in members])
    test = np.setdiff1d(np.arange(graph.n_nodes), labelled)
    for i, method in enumerate(methods.values()):
        accuracy[i, choice] = method.fit(labelled, topics[labelled]).score(test, topics[test])


def mean(values):
    """Return a mean with its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(values.size):.3f}"


print(f"{papers.name}: {graph}, chance {1 / len(members):.3f}\n")
print("method                    accuracy   behind walk features")
for name, own in zip(methods, accuracy, strict=True):
    print(f"{name:20s} {mean(own)}          {mean(accuracy[0] - own)}")

matplotlib.use("agg")
figure, axes = pyplot.subplots(figsize=(7.5, 5), layout="constrained")
axes.plot(range(3), accuracy, color="0.85", linewidth=0.8, zorder=1)
for i, color in enumerate(("tab:red", "tab:blue", "tab:gray")):
    axes.plot(np.full(options.choices, i), accuracy[i], "o", color=color, alpha=0.6)
    axes.hlines(accuracy[i].mean(), i - 0.16, i + 0.16, color=color, linewidth=3)
names = [f"{name}\n{mean(own)}" for name, own in zip(methods, accuracy, strict=True)]
axes.set_xticks(range(3), names, fontsize=11)
axes.set(xlim=(-0.5, 2.5), ylabel="share of the test nodes classified correctly")
axes.set_title(f"{papers.name}, 20 labelled nodes of each class\n(a grey line joins one choice of nodes)")
axes.grid(axis="y", alpha=0.25)
path = options.folder / "classify_papers.png"
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=150)
print(f"\nSaved {path}")
