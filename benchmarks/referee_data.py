"""The tasks of the referee: graphs with classes, values or groups of nodes, and the splits of their nodes.

Everything is a pure function of the name of the task and the number of the split. Real graphs come from
``wk.load_dataset`` (set WALKERNEL_DATA to the folder of their files). Signals on roads and on the grid are
drawn anew for each split, noise included; predictions are scored against the noisy values of the other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

import walkernel as wk

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

LABELLED = ("cora", "citeseer", "pubmed", "facebook_pages", "lastfm_asia", "blocks")
SIGNALS = {  # K^½ that is applied to white noise, and its width
    "minnesota_diffusion_3": ("diffusion", 3.0),
    "minnesota_diffusion_10": ("diffusion", 10.0),
    "minnesota_matern_10": ("matern", 10.0),
    "minnesota_matern_40": ("matern", 40.0),
}
MESHES = ("teapot", "idler_riser", "busted", "torus")
NAMES = {
    "classification": (*LABELLED, "wiki_chameleon"),
    "regression": (*SIGNALS, "wiki_chameleon", *(f"{name}_normals" for name in MESHES), "grid"),
    "clustering": LABELLED,
}
REGIMES = {"classification": ("20/class", "1%"), "regression": ("20%",), "clustering": ("all",)}
SIGNAL_NOISE = 0.3
"""Standard deviation of the noise on the signals of roads, which have standard deviation 1."""


class Key(NamedTuple):
    """Names a task: one graph, one kind of question and one share of known nodes."""

    kind: str
    data: str
    regime: str


class Split(NamedTuple):
    """Nodes to learn from and nodes to predict, with their values; all nodes and groups for clustering."""

    train: Ids
    y_train: NDArray[Any]
    test: Ids
    y_test: NDArray[Any]


@dataclass
class Task:
    """A graph, and what is known of its nodes."""

    key: Key
    graph: wk.Graph
    A: scipy.sparse.csr_matrix
    y: NDArray[Any]  # (n_nodes,): classes, −1 for none, or values
    n_classes: int

    def split(self, number: int) -> Split:
        """Return split ``number``, the same for all methods."""
        kind, data, regime = self.key
        rng = np.random.default_rng([number, *f"{data} {regime}".encode()])
        y = np.asarray(draw_signal(self, rng) if data in SIGNALS or data == "grid" else self.y)
        nodes = np.flatnonzero(y >= 0) if kind != "regression" else np.arange(y.size)
        if kind == "clustering":
            return Split(nodes, y[nodes], nodes, y[nodes])
        order = rng.permutation(nodes)
        if kind == "regression":
            chosen = order[: round(0.2 * order.size)]
        elif regime == "20/class":  # half of a class that has fewer than 40 nodes
            of_class = [order[y[order] == c] for c in range(self.n_classes)]
            chosen = np.concatenate([ids[: min(20, ids.size // 2)] for ids in of_class])
        else:  # one node of each class, the others at random
            first = np.array([order[y[order] == c][0] for c in range(self.n_classes)])
            others = np.setdiff1d(order, first, assume_unique=True)
            rest = max(0, round(0.01 * order.size) - first.size)
            chosen = np.concatenate([first, rng.permutation(others)[:rest]])
        train = np.sort(chosen)
        test = np.setdiff1d(nodes, train)
        return Split(train, y[train], test, y[test])


def load(key: Key) -> Task:
    """Return a task by its name."""
    kind, data, _ = key
    if data == "blocks":
        found = wk.datasets.stochastic_block_model((400,) * 5, 0.02, 0.004, seed=7)
    elif data == "grid":
        found = wk.datasets.grid(60, 60)
    else:
        found = wk.load_dataset("minnesota" if data in SIGNALS else data.removesuffix("_normals"))
    if data.endswith("_normals"):
        y = found.normals[:, 2]
    elif kind == "regression" and data == "wiki_chameleon":
        y = np.log(found.targets[:, 0])
    elif data == "wiki_chameleon":  # five classes of equal size, as Pei et al. (2020) make them
        ranks = np.argsort(np.argsort(found.targets[:, 0], kind="stable"))
        y = ranks * 5 // ranks.size
    else:
        y = found.labels if kind != "regression" else np.zeros(found.graph.n_nodes)
    classes = 0 if kind == "regression" else int(y.max()) + 1
    A = scipy.sparse.csr_matrix(found.graph.to_scipy("adjacency"))
    return Task(key, found.graph, A, y, classes)


def draw_signal(task: Task, rng: np.random.Generator) -> Floats:
    """Return noisy values of all nodes: waves on the grid, else a draw of a Gaussian process on the roads.

    Covariances are exp(−σ²L/2) and (2ν/κ² + L)^−ν with ν = 2, L = I − D^-½AD^-½; their roots act on white
    noise by ``expm_multiply`` and by a sparse solve. The draw is scaled to standard deviation 1.
    """
    n, data = task.graph.n_nodes, task.key.data
    if data == "grid":
        row, column = np.divmod(np.arange(n), 60)
        return np.sin(row / 30) + np.cos(column / 30) + 0.1 * rng.standard_normal(n)
    shape, width = SIGNALS[data]
    L = scipy.sparse.csc_matrix(scipy.sparse.eye(n) - task.graph.to_scipy("normalized"))
    white = rng.standard_normal(n)
    if shape == "diffusion":
        f = scipy.sparse.linalg.expm_multiply(-(width**2) / 4 * L, white)
    else:
        f = scipy.sparse.linalg.spsolve(L + 4 / width**2 * scipy.sparse.eye(n, format="csc"), white)
    return (f - f.mean()) / f.std() + SIGNAL_NOISE * rng.standard_normal(n)
