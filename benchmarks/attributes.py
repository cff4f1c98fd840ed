"""What attributes of nodes add to a graph, and a graph to attributes: R² of predictions at other nodes.

    WALKERNEL_DATA=FOLDER python benchmarks/attributes.py [--splits 10] [--out FILE]

Values at 60 % of the nodes are known, the others are predicted. ``linear`` is a regression on the attributes,
``RBF`` a Gaussian process of scikit-learn on them, ``graph`` is NodeGPRegressor without and ``both`` with
``features=``. Simulated values are a function of the attributes plus a draw of a Gaussian process on the
graph plus noise, with the shares of variance that the name tells. Measured ones are the normals of meshes,
three outputs at once, with the positions of the vertices for attributes.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

import walkernel as wk

Array = NDArray[np.float64]
KNOWN_SHARE = 0.6
MAX_KNOWN = 1000
"""Known nodes at most: scikit-learn's Gaussian process is cubic in their number."""


class Task(NamedTuple):
    """A graph, attributes of its nodes, and what is to be predicted."""

    name: str
    graph: wk.Graph
    attributes: Array  # (n_nodes, d)
    values: Array  # (n_nodes,) or (n_nodes, outputs)


def simulated(name: str, shares: tuple[float, float, float], seed: int) -> Task:
    """Return values with shares of variance of attributes, graph and noise, on a graph of 1000 nodes."""
    rng = np.random.default_rng([seed, 17])
    graph = wk.datasets.erdos_renyi(1000, 0.005, seed=seed).graph
    x = rng.standard_normal((graph.n_nodes, 4))
    function = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    smooth = wk.polynomial_operator(graph, wk.Diffusion(3.0)) @ rng.standard_normal(graph.n_nodes)
    parts = (function, smooth, rng.standard_normal(graph.n_nodes))
    values = sum(
        np.sqrt(share) * (part - part.mean()) / part.std() for share, part in zip(shares, parts, strict=True)
    )
    return Task(name, graph, x, np.asarray(values))


def tasks(seed: int) -> Iterator[Task]:
    yield simulated("simulated: attributes .7, graph .2", (0.7, 0.2, 0.1), seed)
    yield simulated("simulated: attributes .45, graph .45", (0.45, 0.45, 0.1), seed)
    yield simulated("simulated: attributes 0, graph .9", (0.0, 0.9, 0.1), seed)
    for name in ("teapot", "idler_riser", "busted"):
        try:
            found = wk.load_dataset(name)
        except (OSError, ValueError):
            continue
        yield Task(
            f"normals of {name}", found.graph, np.asarray(found.coordinates), np.asarray(found.normals)
        )


def linear(task: Task, known: Array, rest: Array) -> Array:
    return LinearRegression().fit(task.attributes[known], task.values[known]).predict(task.attributes[rest])


def radial(task: Task, known: Array, rest: Array) -> Array:
    x = StandardScaler().fit_transform(task.attributes)
    kernel = ConstantKernel() * RBF(1.0) + WhiteKernel(0.1)
    return (
        GaussianProcessRegressor(kernel, normalize_y=True).fit(x[known], task.values[known]).predict(x[rest])
    )


def graph_alone(task: Task, known: Array, rest: Array) -> Array:
    return np.asarray(wk.NodeGPRegressor(task.graph).fit(known, task.values[known]).predict(rest))


def both(task: Task, known: Array, rest: Array) -> Array:
    model = wk.NodeGPRegressor(task.graph, features=task.attributes)
    return np.asarray(model.fit(known, task.values[known]).predict(rest))


METHODS: dict[str, Callable[[Task, Any, Any], Array]] = {
    "linear": linear, "RBF": radial, "graph": graph_alone, "both": both,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "attributes.txt")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    scores: dict[str, dict[str, list[float]]] = {}
    seconds: list[float] = []
    for split in range(options.splits):
        for task in tasks(split):
            order = np.random.default_rng(split).permutation(task.graph.n_nodes)
            n_known = min(MAX_KNOWN, int(KNOWN_SHARE * order.size))
            known, rest = order[:n_known], order[n_known:]
            for method, predict in METHODS.items():
                begin = time.perf_counter()
                score = r2_score(task.values[rest], predict(task, known, rest))
                if method == "both":
                    seconds.append(time.perf_counter() - begin)
                scores.setdefault(task.name, {}).setdefault(method, []).append(score)
    lines = [f"R² ± standard error over {options.splits} splits; both: {np.median(seconds):.1f} s (median)"]
    lines.append(f"{'':40s}" + "".join(f"{name:>16s}" for name in METHODS))
    for name, found in scores.items():
        cells = [
            f"{np.mean(one):.3f} ± {np.std(one, ddof=1) / np.sqrt(len(one)):.3f}" for one in found.values()
        ]
        lines.append(f"{name:40s}" + "".join(f"{cell:>16s}" for cell in cells))
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.write_text(text)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
