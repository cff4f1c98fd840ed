"""Rivals of Gaussian processes on nodes from walks: other ways to predict a value or a class of a node.

A rival takes (graph, train_ids, y_train, test_ids, seed) and returns a ``Prediction``, or for classes
0 … n_classes − 1 a ``ClassPrediction``. Seconds are of everything: hyper-parameters, fit and prediction. What
depends on the graph alone (eigenvectors) is computed once, and its time is added to every call.
fast-graph-gp runs in the interpreter named by WALKERNEL_RIVAL_PYTHON (``pip install fast-graph-gp``; it needs
PyTorch and GPyTorch).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from gp_data import (
    ClassPrediction,
    Prediction,
    Split,
    Task,
    accuracy,
    all_columns,
    gaussian_nlpd,
    log_loss,
    rmse,
)
from gp_exact import MOST_DOUBLE, Floats, Ids, exact_gp_classification, exact_gp_regression, timed_once
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold
from sklearn.semi_supervised import LabelSpreading
from threadpoolctl import threadpool_limits

import walkernel as wk
from walkernel.tasks._observations import first_twins

DIMENSIONS = (8, 16, 32, 64, 128, 256)


class NotInstalledError(RuntimeError):
    """The interpreter of a rival is not there."""


# linear models on eigenvectors --------------------------------------------------------------------


def embeddings(graph: wk.Graph) -> list[Floats]:
    """Return the leading eigenvectors of D^-½AD^-½, and the same over √degree (scikit-learn's embedding)."""
    M, n, size = graph.to_scipy("normalized"), graph.n_nodes, min(max(DIMENSIONS), graph.n_nodes - 2)
    if n <= MOST_DOUBLE:
        values, vectors = scipy.linalg.eigh(M.toarray(), subset_by_index=(n - size, n - 1))
    else:
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = scipy.sparse.linalg.eigsh(M, size, which="LA", tol=1e-4, v0=start)
    vectors = vectors[:, np.argsort(-values)] * np.sqrt(n)
    degrees = np.maximum(graph.to_scipy("adjacency").sum(axis=1), 1e-12)
    return [vectors, vectors * np.sqrt(degrees.mean() / degrees)[:, None]]


def spectral_ridge(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Ridge regression on eigenvectors; their number, scaling and alpha by leaving one out, std from it."""
    (choices, eigen_seconds), begin = timed_once(graph, embeddings), time.perf_counter()
    models = []
    for X in choices:
        for size in (d for d in DIMENSIONS if d <= X.shape[1]):
            model = RidgeCV(np.logspace(-3, 5, 17)).fit(X[train_ids, :size], y_train)
            models.append((-model.best_score_, size, X, model))
    error, size, X, model = min(models, key=lambda entry: entry[0])
    mean = model.predict(X[test_ids, :size])
    return Prediction(mean, np.full(mean.shape, np.sqrt(error)), time.perf_counter() - begin + eigen_seconds)


def spectral_logistic(
    graph: wk.Graph,
    train_ids: Ids,
    y_train: Ids,
    test_ids: Ids,
    seed: int = 0,
    *,
    n_classes: int | None = None,
) -> ClassPrediction:
    """Logistic regression on eigenvectors; their number, scaling and C by the log loss in three folds."""
    (choices, eigen_seconds), begin = timed_once(graph, embeddings), time.perf_counter()
    count = n_classes or int(y_train.max()) + 1

    def predict(setting: tuple[int, int, float], known: Ids, y: Ids, wanted: Ids) -> Floats:
        choice, size, strength = setting
        X = choices[choice][:, :size]
        model = LogisticRegression(C=strength, max_iter=200, tol=1e-3).fit(X[known], y)
        return all_columns(model.predict_proba(X[wanted]), model.classes_, count)

    sizes = [d for d in DIMENSIONS if 64 <= d <= choices[0].shape[1]]
    grid = [(i, d, c) for i in range(2) for d in sizes for c in (0.1, 1.0, 10.0)]
    with threadpool_limits(1, "blas"):  # small products, slower with more
        best, _ = cross_validate(grid, predict, (train_ids, y_train), log_loss, seed=seed, n_folds=3)
    probabilities = predict(best, train_ids, y_train, test_ids)
    return ClassPrediction(probabilities, time.perf_counter() - begin + eigen_seconds)


def cross_validate(
    grid: list[Any],
    predict: Callable[[Any, Ids, NDArray[Any], Ids], Floats],
    known: tuple[Ids, NDArray[Any]],
    loss: Callable[[NDArray[Any], Floats], float],
    *,
    seed: int,
    n_folds: int = 5,
) -> tuple[Any, float]:
    """Return the setting of the least mean loss over folds, and that loss."""
    ids, y = known
    folds = list(KFold(n_folds, shuffle=True, random_state=seed).split(ids))
    losses = [
        np.mean([loss(y[out], predict(setting, ids[kept], y[kept], ids[out])) for kept, out in folds])
        for setting in grid
    ]
    return grid[int(np.argmin(losses))], float(min(losses))


# values and labels that spread along edges --------------------------------------------------------


def label_spreading(
    graph: wk.Graph,
    train_ids: Ids,
    y_train: Ids,
    test_ids: Ids,
    seed: int = 0,
    *,
    n_classes: int | None = None,
) -> ClassPrediction:
    """scikit-learn's LabelSpreading on the graph's own edges; alpha by the log loss in five folds."""
    begin, count = time.perf_counter(), n_classes or int(y_train.max()) + 1
    A = scipy.sparse.csr_matrix(graph.to_scipy("adjacency"))
    nodes = np.arange(graph.n_nodes)[:, None]

    def predict(alpha: float, known: Ids, y: Ids, wanted: Ids) -> Floats:
        labels = np.full(graph.n_nodes, -1)
        labels[known] = y
        # a callable kernel may return any affinities of the samples, sparse ones too
        model = LabelSpreading(lambda X, Y: A, alpha=alpha, max_iter=1000).fit(nodes, labels)
        spread = model.label_distributions_[wanted]
        spread[spread.sum(axis=1) == 0] = np.bincount(np.searchsorted(model.classes_, y)) / y.size
        return all_columns(spread, model.classes_, count)

    best, _ = cross_validate((0.5, 0.8, 0.9, 0.95, 0.99), predict, (train_ids, y_train), log_loss, seed=seed)
    return ClassPrediction(predict(best, train_ids, y_train, test_ids), time.perf_counter() - begin)


def neighbour_mean(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Mean of the known neighbours, else of all; std from leaving one out, apart for the two."""
    begin, A = time.perf_counter(), graph.to_scipy("adjacency")
    counts, sums = A[:, train_ids].sum(axis=1), A[:, train_ids] @ y_train
    centre = y_train.mean()
    means = np.where(counts > 0, sums / np.maximum(counts, 1e-12), centre)
    near = counts > 0
    errors = (y_train - means[train_ids]) ** 2  # a node is no neighbour of itself: it is left out already
    inside = errors[near[train_ids]].mean() if near[train_ids].any() else y_train.var()
    std = np.sqrt(np.where(near, inside, y_train.var()))
    return Prediction(means[test_ids], std[test_ids], time.perf_counter() - begin)


def harmonic_values(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Values f of least Σ (f − y)² + λ fᵀ(D − A)f, λ by CV (the least is Zhu's harmonic f); std from it."""
    begin, A = time.perf_counter(), graph.to_scipy("adjacency")
    # the small multiple of I keeps parts of the graph without known nodes at the mean
    L = scipy.sparse.diags_array(A.sum(axis=1) + 1e-3) - A

    def predict(strength: float, known: Ids, y: Floats, wanted: Ids) -> Floats:
        fitted, targets = np.zeros(graph.n_nodes), np.zeros(graph.n_nodes)
        fitted[known], targets[known] = 1.0, y - y.mean()
        system = scipy.sparse.csc_array(scipy.sparse.diags_array(fitted) + strength * L)
        return y.mean() + scipy.sparse.linalg.spsolve(system, targets)[wanted]

    def squared(y: Floats, mean: Floats) -> float:
        return float(np.mean((y - mean) ** 2))

    grid = [1e-5, 0.01, 0.03, 0.1, 0.3, 1.0]
    best, error = cross_validate(grid, predict, (train_ids, y_train), squared, seed=seed)
    mean = predict(best, train_ids, y_train, test_ids)
    return Prediction(mean, np.full(mean.shape, np.sqrt(error)), time.perf_counter() - begin)


# another library's walks --------------------------------------------------------------------------


def _run_child(graph: wk.Graph, **arrays: Any) -> dict[str, Any]:
    interpreter = os.environ.get("WALKERNEL_RIVAL_PYTHON")
    if not interpreter:
        raise NotInstalledError(
            "fast-graph-gp needs WALKERNEL_RIVAL_PYTHON to name an interpreter that has it"
        )
    upper = scipy.sparse.triu(graph.to_scipy("adjacency"), k=1, format="coo")
    edges = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
    child = Path(__file__).with_name("fast_graph_gp_child.py")
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(asked, n_nodes=graph.n_nodes, edges=edges, **arrays)
        subprocess.run([interpreter, child, asked, answered], check=True)
        with np.load(answered) as file:
            return dict(file)


def fast_graph_gp(
    graph: wk.Graph,
    train_ids: Ids,
    y_train: Floats,
    test_ids: Ids,
    seed: int = 0,
    *,
    n_walks: int = 256,
    kernel: str = "general",
    most_seconds: float = 120.0,
) -> Prediction:
    """fast-graph-gp's GRFGP (see the child); ``most_seconds`` of training, of 100 steps at most."""
    answer = _run_child(
        graph, train_ids=train_ids, y_train=y_train, test_ids=test_ids, seed=seed, n_classes=0,
        n_walks=n_walks, kernel=kernel, most_seconds=most_seconds, n_steps=100,
    )  # fmt: skip
    return Prediction(answer["mean"], answer["std"], float(answer["seconds"]))


def fast_graph_gp_twins(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Run fast-graph-gp with nodes of the same neighbours as one node that is observed repeatedly."""
    first = first_twins(graph)
    return fast_graph_gp(graph, first[train_ids], y_train, first[test_ids], seed)


def fast_graph_gp_classes(
    graph: wk.Graph,
    train_ids: Ids,
    y_train: Ids,
    test_ids: Ids,
    seed: int = 0,
    *,
    n_classes: int | None = None,
    n_walks: int = 256,
    kernel: str = "general",
    most_seconds: float = 120.0,
) -> ClassPrediction:
    """fast-graph-gp on one-hot labels, as it has no classification: means made positive and to sum to one."""
    answer = _run_child(
        graph, train_ids=train_ids, y_train=y_train, test_ids=test_ids, seed=seed, n_walks=n_walks,
        n_classes=n_classes or int(y_train.max()) + 1, kernel=kernel, most_seconds=most_seconds, n_steps=100,
    )  # fmt: skip
    positive = np.maximum(answer["probabilities"], 1e-3)
    return ClassPrediction(positive / positive.sum(axis=1, keepdims=True), float(answer["seconds"]))


# all of them --------------------------------------------------------------------------------------

REGRESSION = (
    neighbour_mean,
    harmonic_values,
    spectral_ridge,
    exact_gp_regression,
    fast_graph_gp,
    fast_graph_gp_twins,
)
CLASSIFICATION = (label_spreading, spectral_logistic, exact_gp_classification, fast_graph_gp_classes)


def scores(rival: Callable[..., Any], task: Task, split: Split) -> tuple[float, float, float]:
    """Return accuracy or RMSE, the negative log probability of y, and the seconds."""
    inputs = (task.graph, split.train_ids, split.y_train, split.test_ids, split.seed)
    if task.is_classification:
        p, seconds = rival(*inputs, n_classes=task.n_classes)
        return accuracy(split.y_test, p), log_loss(split.y_test, p), seconds
    mean, std, seconds = rival(*inputs)
    return rmse(split.y_test, mean), gaussian_nlpd(split.y_test, mean, std), seconds
