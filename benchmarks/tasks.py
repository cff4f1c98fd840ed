"""Speed of the tasks, as ratios to baselines measured in the same run.

    python benchmarks/tasks.py [--quick] [--out FILE]

A grid over kernels against one fit and against drawing walks anew for each kernel; kernel k-means against
scikit-learn's k-means on the same features; differential equations against SciPy's ``expm_multiply``; nearest
nodes against deterministic rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse
from core import machine, random_graph, table
from scipy.sparse.linalg import expm_multiply
from sklearn.cluster import KMeans
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import walkernel as wk
from walkernel.tasks import WALK_CACHE

KERNELS = [wk.Diffusion(s) for s in np.linspace(0.5, 4, 12)] + [
    wk.RegularizedLaplacian(d, s) for d in (1, 2) for s in np.linspace(0.5, 2, 4)
]


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def best(run: Callable[[], object], repeats: int) -> float:
    return min(seconds(run) for _ in range(repeats))


def grid_row(n_nodes: int, n_labelled: int, repeats: int) -> list[str]:
    """One fit of the transformer, 20 fits with other kernels, and the same without the cache."""
    graph, nodes = random_graph(n_nodes, degree=3), np.arange(n_labelled)

    def one(kernel: wk.Kernel = KERNELS[0]) -> None:
        wk.NodeFeatures(graph, kernel, normalize=False, method="walks").fit_transform(nodes)

    def first() -> None:
        WALK_CACHE.clear()
        one()

    def grid() -> None:
        WALK_CACHE.clear()
        for kernel in KERNELS:
            one(kernel)

    def uncached() -> None:
        for kernel in KERNELS:
            WALK_CACHE.clear()
            one(kernel)

    first()
    times = [best(run, repeats) for run in (first, grid, uncached)]
    ratios = [f"{1e3 * t:.0f} ms ({t / times[0]:.1f})" for t in times[1:]]
    return [f"{n_nodes:.0e}", str(n_labelled), f"{1e3 * times[0]:.0f} ms", *ratios]


def search_row(n_nodes: int, n_labelled: int) -> list[str]:
    """GridSearchCV over 20 kernels in 5 folds against one fit of the pipeline, and without the cache."""
    graph, nodes = random_graph(n_nodes, degree=3), np.arange(n_labelled)
    classes = np.arange(n_labelled) % 4
    model = make_pipeline(
        wk.NodeFeatures(graph, KERNELS[0], normalize=False, method="walks"),
        RidgeClassifier(solver="sparse_cg"),
    )
    search = GridSearchCV(model, {"nodefeatures__kernel": KERNELS}, n_jobs=1)

    def fresh(estimator: object) -> Callable[[], object]:
        def run() -> None:
            WALK_CACHE.clear()
            estimator.fit(nodes, classes)  # type: ignore[attr-defined]

        return run

    one, kept = seconds(fresh(model)), seconds(fresh(search))
    limit, WALK_CACHE.limit = WALK_CACHE.limit, 0
    anew = seconds(fresh(search))
    WALK_CACHE.limit = limit
    return [f"{n_nodes:.0e}", str(n_labelled), f"{one:.2f} s", f"{kept:.1f} s", f"{anew:.1f} s"]


def blocks(n_nodes: int, n_blocks: int) -> tuple[wk.Graph, np.ndarray]:
    """Return a graph with 4 edges of each node inside its block and one anywhere."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_blocks, n_nodes)
    inside = [np.flatnonzero(labels == c) for c in range(n_blocks)]
    edges = [m[rng.integers(0, m.size, (4 * m.size, 2))] for m in inside] + [
        rng.integers(0, n_nodes, (n_nodes, 2))
    ]
    return wk.Graph.from_edges(np.concatenate(edges), n_nodes=n_nodes), labels


def clustering_rows(n_nodes: int, n_clusters: int) -> list[list[str]]:
    graph, labels = blocks(n_nodes, n_clusters)
    K = wk.estimate_kernel(graph, wk.Diffusion(3.0), 16)
    features = wk.sample_features(graph, wk.Diffusion(3.0), 16)
    rows = []
    for name, model, X in (
        ("KernelKMeans, n_init=10", wk.KernelKMeans(n_clusters), K),
        ("KernelKMeans, n_init=1", wk.KernelKMeans(n_clusters, n_init=1), K),
        ("KMeans, n_init=1", KMeans(n_clusters, n_init=1, random_state=0), features),
    ):
        taken = seconds(lambda model=model, X=X: model.fit(X))
        error = wk.clustering_error(model.labels_, labels)
        rows.append([f"{n_nodes:.0e}", name, f"{taken:.1f} s", f"{error:.4f}", str(model.n_iter_)])
    return rows


def ode_rows(n_nodes: int) -> list[list[str]]:
    """Heat from a source on 1000 nodes, from a random start, at t = 1."""
    graph = random_graph(n_nodes)
    source, initial = np.zeros(n_nodes), np.random.default_rng(1).random(n_nodes)
    source[:1000] = 1.0
    L = scipy.sparse.eye_array(n_nodes) - graph.to_scipy("normalized")
    column = scipy.sparse.csr_array(source[:, None])
    augmented = scipy.sparse.block_array([[-L, column], [None, scipy.sparse.csr_array((1, 1))]]).tocsr()

    def scipy_solution() -> np.ndarray:
        return np.asarray(expm_multiply(augmented, np.append(initial, 1.0)))[:-1]

    exact = scipy_solution()
    base = seconds(scipy_solution)
    rows = [[f"{n_nodes:.0e}", "scipy expm_multiply", f"{base:.1f} s", "1", ""]]
    nodes = np.arange(100)
    for name, options in (
        ("polynomial", {}),
        ("16 walks", {"n_walks": 16}),
        ("16 walks, lazy", {"n_walks": 16, "pair": "lazy"}),
        ("256 walks, 100 nodes", {"n_walks": 256, "nodes": nodes}),
    ):
        begin = time.perf_counter()
        x = wk.solve_ode(graph, source, 1.0, initial=initial, **options).x[0]
        taken = time.perf_counter() - begin
        truth = exact[nodes] if "nodes" in options else exact
        error = np.linalg.norm(x - truth) / np.linalg.norm(truth)
        rows.append([f"{n_nodes:.0e}", name, f"{taken:.1f} s", f"{base / taken:.2f}", f"{error:.1e}"])
    return rows


def other_rows(n_nodes: int) -> list[list[str]]:
    """Nearest nodes of 1000, and regression from a tenth of the nodes to all."""
    graph, kernel = random_graph(n_nodes), wk.Diffusion(1.0)
    K, P = wk.estimate_kernel(graph, kernel, 64), wk.polynomial_operator(graph, kernel)
    nodes, known = np.arange(1000), np.arange(0, n_nodes, 10)
    y = np.sin(known)
    K.topk(nodes[:1], 10)
    sparse, exact = seconds(lambda: K.topk(nodes, 10)), seconds(lambda: P.topk(nodes[:100], 10)) * 10
    rows = [
        ["topk of 1000 nodes", f"{sparse:.2f} s", f"{exact / sparse:.1f} of deterministic rows (from 100)"]
    ]
    for model in (
        wk.NodeSmoother(graph, kernel, n_walks=32, average=False, method="walks"),
        wk.NodeRidge(graph, kernel, n_walks=32, normalize=False, alpha=1.0, method="walks"),
    ):
        WALK_CACHE.clear()
        taken = seconds(lambda model=model: model.fit(known, y).predict(np.arange(n_nodes)))
        rows.append([f"{type(model).__name__}, fit and predict", f"{taken:.2f} s", ""])
    return [[f"{n_nodes:.0e}", *row] for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    small = options.quick
    repeats = 3 if small else 7
    sizes = (
        [(2_500, 2_500), (100_000, 5_000)] if small else [(2_500, 2_500), (100_000, 5_000), (100_000, 50_000)]
    )
    threadpool_limits(1, "blas")
    parts = [
        machine(),
        table(
            "NodeFeatures, 64 walks: one fit_transform, then 20 kernels on the same nodes (ratio to one)",
            ["nodes", "labelled", "one", "20 kernels", "20 kernels, walks anew"],
            [grid_row(*size, repeats) for size in sizes],
        ),
        table(
            "GridSearchCV over 20 kernels, 5 folds, RidgeClassifier",
            ["nodes", "labelled", "one fit", "search", "search, walks anew"],
            [search_row(*size) for size in sizes[:2]],
        ),
        table(
            "Ten blocks, 16 walks, Diffusion(3) (goal: 1e5 nodes in a minute)",
            ["nodes", "", "time", "E_c", "iterations"],
            clustering_rows(10_000 if small else 100_000, 10),
        ),
        table(
            "x' = -Lx + y at t = 1 (goal: 1e6 nodes in a minute)",
            ["nodes", "", "time", "speed", "error"],
            ode_rows(100_000 if small else 1_000_000),
        ),
        table("Other", ["nodes", "", "time", "speed"], other_rows(10_000 if small else 100_000)),
    ]
    text = "\n".join(parts)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
