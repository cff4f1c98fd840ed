"""Data, splits and scores on which Gaussian processes on nodes and their rivals are compared.

Three tasks from ``wk.load_dataset`` (set WALKERNEL_DATA to the folder of the files): the log of the traffic
of pages (wiki_chameleon, 50 % train), the country of users (lastfm_asia, 10 %), and a made-up signal on
roads (minnesota, 10 %) whose noise is known. Splits are pure functions of their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

import walkernel as wk

ROAD_NOISE = 0.2
"""Standard deviation of the noise on the signal of ``road_signal``; the signal's own is 0.45."""

LEAST_PROBABILITY = 1e-4
"""Probabilities are scored as if at least this large: some rivals say zero."""


class Task(NamedTuple):
    """A graph with a value or a class for each node."""

    name: str
    graph: wk.Graph
    y: NDArray[np.float64] | NDArray[np.int64]  # (n_nodes,)
    train_part: float
    n_classes: int = 0

    @property
    def is_classification(self) -> bool:
        """Whether y holds classes."""
        return self.n_classes > 0


class Split(NamedTuple):
    """Nodes to learn from and nodes to predict, with their values."""

    seed: int
    train_ids: NDArray[np.int64]
    y_train: NDArray[np.float64] | NDArray[np.int64]
    test_ids: NDArray[np.int64]
    y_test: NDArray[np.float64] | NDArray[np.int64]


class Prediction(NamedTuple):
    """Mean and standard deviation of a new observation at each test node, noise included; NaN: not known."""

    mean: NDArray[np.float64]  # (n_test,)
    std: NDArray[np.float64]  # (n_test,)
    seconds: float


class ClassPrediction(NamedTuple):
    """Probabilities of the classes 0 … n_classes − 1 at each test node."""

    probabilities: NDArray[np.float64]  # (n_test, n_classes)
    seconds: float


def page_traffic() -> Task:
    """Return the natural log of the monthly traffic of 2277 pages about chameleons."""
    data = wk.load_dataset("wiki_chameleon")
    return Task(data.name, data.graph, np.log(data.targets[:, 0]), 0.5)


def user_country() -> Task:
    """Return the country, one of 18, of 7624 users of a music service."""
    data = wk.load_dataset("lastfm_asia")
    return Task(data.name, data.graph, data.labels, 0.1, n_classes=len(data.label_names))


def road_signal() -> Task:
    """Return sin(2πu) cos(πv) + tanh((v − u/2 − 0.4) / 0.05) / 2 + noise on 2642 crossings.

    u and v are longitude and latitude brought to [0, 1]: a smooth wave and a front about a twentieth of the
    map wide. The noise is Gaussian and drawn once, so all splits see the same y.
    """
    data = wk.load_dataset("minnesota")
    low, high = data.coordinates.min(axis=0), data.coordinates.max(axis=0)
    u, v = ((data.coordinates - low) / (high - low)).T
    signal = np.sin(2 * np.pi * u) * np.cos(np.pi * v) + np.tanh((v - u / 2 - 0.4) / 0.05) / 2
    noise = ROAD_NOISE * np.random.default_rng(0).standard_normal(u.size)
    return Task(data.name, data.graph, signal + noise, 0.1)


def splits(task: Task, n_splits: int) -> Iterator[Split]:
    """Yield random splits 0, 1, … of the nodes; split i is the same however many are asked for."""
    n_train = round(task.train_part * task.graph.n_nodes)
    for seed in range(n_splits):
        order = np.random.default_rng([seed, 2024]).permutation(task.graph.n_nodes)
        train_ids, test_ids = np.sort(order[:n_train]), np.sort(order[n_train:])
        yield Split(seed, train_ids, task.y[train_ids], test_ids, task.y[test_ids])


def all_columns(
    probabilities: NDArray[np.float64], classes: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    """Return (n, n_classes) from the columns of the classes seen in training; those unseen get zero."""
    columns = np.zeros((len(probabilities), n_classes))
    columns[:, classes] = probabilities
    return columns


def rmse(y: NDArray[np.float64], mean: NDArray[np.float64]) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def gaussian_nlpd(y: NDArray[np.float64], mean: NDArray[np.float64], std: NDArray[np.float64]) -> float:
    """Return the mean of −log N(y | mean, std²), NaN if there is no std."""
    return float(-np.mean(norm.logpdf(y, mean, std)))


def accuracy(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Return the part of nodes whose most probable class is right."""
    return float(np.mean(probabilities.argmax(axis=1) == y))


def log_loss(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Return the mean of −log p(y), p being at least ``LEAST_PROBABILITY``."""
    chosen = probabilities[np.arange(y.size), y]
    return float(-np.mean(np.log(np.maximum(chosen, LEAST_PROBABILITY))))
