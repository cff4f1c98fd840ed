"""Traffic of Wikipedia pages: a learned f against the best diffusion kernel of a grid, on the same walks.

A value is predicted as the weighted mean of known ones. Of every split's training nodes a part is kept to
choose by: the lengthscale of the grid, and when to stop learning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from core import table
from numpy.typing import NDArray

import walkernel as wk
from walkernel.datasets import barabasi_albert
from walkernel.torch import FreeModulation, NeuralModulation, Schedule, fit_to_task, squared_loss

Floats = NDArray[np.float64]
SIGMAS = np.geomspace(0.5, 4.0, 7)
N_WALKS = 32
REFERENCE = "diffusion, best of grid"
LENGTHS = 8


def present(name: str) -> wk.Dataset | None:
    """Return a data set, or None where it cannot be had."""
    try:
        return wk.load_dataset(name)
    except (OSError, ImportError):
        return None


def traffic() -> tuple[str, wk.Graph, Floats]:
    """Return name, graph and log traffic; a graph with a smooth signal where the data cannot be had."""
    data = present("wiki_chameleon")
    if data is not None:
        values = data.targets[:, 0]
        return data.name, data.graph, np.log(values) if values.min() > 1 else values
    graph = barabasi_albert(1000, 3, seed=0).graph
    signal = wk.polynomial_operator(graph, wk.Diffusion(1.5)) @ np.random.default_rng(0).normal(size=1000)
    return "generated", graph, signal / signal.std()


def rmse(predicted: Floats, y: Floats) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


class Smoother:
    """Weighted means of known values at other nodes, by any f, on one set of walks for all of them."""

    def __init__(self, graph: wk.Graph, sampler: Any, seed: int) -> None:
        options = {"sampler": sampler, "seed": seed}
        self._left, self._right = (wk.sample_walks(graph, N_WALKS, stream=s, **options) for s in (0, 1))

    def error(self, f: Any, known: NDArray[np.int64], asked: NDArray[np.int64], y: Floats) -> float:
        """Return the root mean squared error at some nodes, from the values at others."""
        mean = y[known].mean()
        columns = np.column_stack([y[known] - mean, np.ones(known.size)])
        left, right = self._left.features(f, rows=asked), self._right.features(f, rows=known)
        values, weight = (left @ (right.T @ columns)).T
        return rmse(mean + values / np.where(weight == 0, 1, weight), y[asked])


def split_errors(graph: wk.Graph, y: Floats, number: int) -> dict[str, float]:
    """Return the error of each method on one split."""
    order = np.random.default_rng([3, number]).permutation(graph.n_nodes)
    train, test = np.split(order, [graph.n_nodes // 2])
    inner, chosen_by = np.split(train, [int(0.8 * train.size)])
    kernels = [wk.Diffusion(sigma) for sigma in SIGMAS]
    sampler = wk.choose_sampler(graph, *kernels, n_walks=N_WALKS)
    smoother = Smoother(graph, sampler, 100 + number)
    best = min(kernels, key=lambda kernel: smoother.error(kernel, inner, chosen_by, y))
    found = {
        "mean of all": rmse(np.full(test.size, y[train].mean()), y[test]),
        REFERENCE: smoother.error(best, train, test, y),
    }
    starts = {
        "network of 4 units": NeuralModulation((4,), activation="leaky_relu", decay=0.8),
        "free f from diffusion": FreeModulation(best.modulation(LENGTHS), decay=0.8, strength=1e-4),
    }
    for name, start in starts.items():
        fit = fit_to_task(
            graph, train, y[train] - y[train].mean(), loss=squared_loss, modulation=start, normalize=True,
            n_walks=N_WALKS, sampler=sampler, masked=0.3, validation=0.2, n_samples=2, patience=100,
            schedule=Schedule(n_epochs=400), seed=number,
        )  # fmt: skip
        found[name] = smoother.error(fit.modulation.modulation(sampler.longest + 1), train, test, y)
    return found


def traffic_rows(n_splits: int) -> str:
    """Return the table over splits."""
    name, graph, y = traffic()
    errors = [split_errors(graph, y, number) for number in range(n_splits)]
    rows = []
    reference = np.array([one[REFERENCE] for one in errors])
    for method in errors[0]:
        values = np.array([one[method] for one in errors])
        change = values / reference - 1
        se = [v.std(ddof=1) / np.sqrt(v.size) for v in (values, change)]
        rows.append([method, f"{values.mean():.4f} ± {se[0]:.4f}", f"{change.mean():+.4f} ± {se[1]:.4f}"])
    title = (
        f"{name}: error of weighted means, {n_splits} splits in halves, the same {N_WALKS} walks for all f"
    )
    return table(title, ["f", "RMSE", "over diffusion, less 1"], rows)
