"""Clusters of nodes: agreement with known classes, and time, beside spectral embedding and Louvain.

    WALKERNEL_DATA=FOLDER python benchmarks/clustering.py [--quick] [--seeds 20] [--out FILE]

The baseline is what one writes by hand: the leading eigenvectors of the normalized matrix, as many as there
are classes, rows of length one, scikit-learn's k-means with ten starts. Louvain is that of scikit-network, or
else of networkx; it chooses the number of clusters itself. Agreement is normalized mutual information with
the classes of the nodes that have one, its mean over seeds and the standard deviation; time is processor time
of one thread, the median. Seeds 0-19 are reported; the defaults were chosen on seeds from 1000 on.
Seeds draw other block models; on real graphs they only start k-means otherwise, and the defaults were chosen
on the graphs that are reported.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from core import machine, table
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import threadpool_limits

import walkernel as wk

REAL = ("cora", "citeseer", "pubmed", "lastfm_asia", "facebook_pages", "polbooks", "football", "eurosis")
BLOCKS = {  # sizes, mean degree, share of edges that ignore the blocks, whether there are hubs
    "equal blocks": ((500,) * 4, 6, 0.3, False),
    "unequal blocks": ((1500, 700, 300, 100), 20, 0.5, False),
    "unequal, hubs": ((1500, 700, 300, 100), 8, 0.3, True),
    "seven, hubs": ((2000, 400, 200, 150, 100, 60, 40), 10, 0.3, True),
}


class Problem(NamedTuple):
    """A graph and the class of each node, -1 where it is not known."""

    graph: wk.Graph
    classes: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return np.unique(self.classes[self.classes >= 0]).size


def real(name: str) -> Callable[[int], Problem]:
    data = wk.load_dataset(name)
    problem = Problem(data.graph, np.asarray(data.labels))
    return lambda seed: problem


def blocks(name: str) -> Callable[[int], Problem]:
    """Return block models with Pareto degrees, at most twenty times the mean, or equal ones."""
    sizes, degree, mixing, hubs = BLOCKS[name]

    def draw(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        classes = np.repeat(np.arange(len(sizes)), sizes)
        weights = rng.pareto(2.5, classes.size) + 1 if hubs else np.ones(classes.size)
        weights = np.minimum(weights / weights.mean(), 20)
        n_edges = int(classes.size * degree / 2)
        ends, others = rng.choice(classes.size, (2, n_edges), p=weights / weights.sum())
        inside = rng.random(n_edges) >= mixing
        for c in range(len(sizes)):
            own, chosen = classes == c, inside & (classes[ends] == c)
            chances = weights[own] / weights[own].sum()
            others[chosen] = rng.choice(np.flatnonzero(own), chosen.sum(), p=chances)
        edges = np.column_stack([ends, others])[ends != others]
        return Problem(wk.Graph.from_edges(edges, n_nodes=classes.size), classes)

    return draw


def ours(problem: Problem, seed: int) -> NDArray[np.int32]:
    return wk.KernelKMeans(problem.n_classes, random_state=seed).fit(problem.graph).labels_


def ours_chosen(problem: Problem, seed: int) -> NDArray[np.int32]:
    return wk.KernelKMeans(None, random_state=seed).fit(problem.graph).labels_


def spectral(problem: Problem, seed: int) -> NDArray[np.int32]:
    k, n = problem.n_classes, problem.graph.n_nodes
    start = np.random.default_rng(0).normal(size=n)
    _, V = eigsh(problem.graph.to_scipy("normalized"), k, which="LA", v0=start)
    rows = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
    return KMeans(k, n_init=10, random_state=seed).fit(rows).labels_


def louvain() -> dict[str, Callable[[Problem, int], NDArray[np.int32]]]:
    """Return Louvain of a package that is installed, if there is one."""
    try:
        from sknetwork.clustering import Louvain
    except ImportError:
        pass
    else:
        return {
            "Louvain (scikit-network)": lambda problem, seed: Louvain(random_state=seed).fit_predict(
                problem.graph.to_scipy()
            )
        }
    try:
        from networkx.algorithms.community import louvain_communities
    except ImportError:
        return {}

    def by_networkx(problem: Problem, seed: int) -> NDArray[np.int32]:
        labels = np.zeros(problem.graph.n_nodes, dtype=np.int32)
        for c, nodes in enumerate(louvain_communities(problem.graph.to_networkx(), seed=seed)):
            labels[list(nodes)] = c
        return labels

    return {"Louvain (networkx)": by_networkx}


def rows(name: str, draw: Callable[[int], Problem], seeds: int) -> list[list[str]]:
    """Return a row for each method."""
    methods = {
        "KernelKMeans": ours, "spectral + KMeans": spectral, "KernelKMeans(None)": ours_chosen, **louvain()
    }  # fmt: skip
    found = []
    for method, cluster in methods.items():
        n_seeds = min(seeds, 3) if "networkx" in method else seeds
        scores, times, counts = [], [], []
        for seed in range(n_seeds):
            problem = draw(seed)
            known = problem.classes >= 0
            begin = time.process_time()
            labels = cluster(problem, seed)
            times.append(time.process_time() - begin)
            scores.append(normalized_mutual_info_score(problem.classes[known], labels[known]))
            counts.append(np.unique(labels).size)
        score = f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"
        row = [
            name,
            method,
            score,
            f"{statistics.median(times):.2f} s",
            f"{np.mean(counts):.1f}",
            str(n_seeds),
        ]
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="three seeds, without the larger graphs")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    seeds = 3 if options.quick else options.seeds
    threadpool_limits(1)
    names = [name for name in REAL if not (options.quick and name in ("pubmed", "facebook_pages"))]
    head = ["graph", "", "NMI", "time", "clusters", "seeds"]
    parts = [machine()]
    for title, sources in (
        ("Graphs with known classes", [(name, real(name)) for name in names]),
        ("Block models, another for each seed", [(name, blocks(name)) for name in BLOCKS]),
    ):
        parts.append(table(title, head, [row for source in sources for row in rows(*source, seeds)]))
    text = "\n".join(parts)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
