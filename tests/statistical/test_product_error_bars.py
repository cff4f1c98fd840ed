"""Standard errors of products and row sums: 95 % intervals cover 93–97 % in every cell.

A cell is a graph, a kernel and an ensemble. It is estimated once, on many copies of the graph side by side:
walks from different copies are independent, so that each copy is a repeat. Errors of the nodes of one copy
are correlated, and the sampling error of a cell is that between copies.
"""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from scipy.stats import t as student

import graphs
import walkernel as wk
from depth import mostly_deep
from walkernel.operators import _groups

KERNELS = {
    "diffusion t=1": wk.Diffusion(np.sqrt(2.0)),
    "diffusion t=5": wk.Diffusion(np.sqrt(10.0)),
    "diffusion t=20": wk.Diffusion(np.sqrt(40.0)),
    "laplacian d=1": wk.RegularizedLaplacian(1, 1.0),
    "laplacian d=2": wk.RegularizedLaplacian(2, np.sqrt(5.0)),
}
GRAPHS = {
    "karate": graphs.karate,
    "tree": lambda: graphs.binary_tree(4),
    "weighted": graphs.weighted,
    "random": lambda: wk.Graph.from_networkx(nx.gnp_random_graph(60, 0.1, seed=1)),
    "scale-free": lambda: wk.Graph.from_networkx(nx.barabasi_albert_graph(60, 3, seed=1)),
    "grid": lambda: wk.Graph.from_networkx(nx.grid_2d_graph(7, 7)),
}
WIDE = "diffusion t=20"
"""The kernel whose errors nearly agree on all nodes of a copy: it takes more copies."""


def copies(graph, number):
    return wk.Graph.from_scipy(scipy.sparse.kron(scipy.sparse.eye_array(number), graph.to_scipy(), "csr"))


def share(inside):
    """Share of intervals that hold the truth, and its sampling error from that between copies."""
    return inside.mean(), inside.mean(axis=1).std() / np.sqrt(len(inside))


def cell(graph, name, ensembles):
    """Coverage and its sampling error for K v, v normal, and for row sums."""
    kernel, n = KERNELS[name], graph.n_nodes
    repeats = (24000 if name == WIDE else 6000) // n
    V = np.column_stack([np.random.default_rng(3).standard_normal(n), np.ones(n)])
    sampler = wk.CoupledWalks(wk.matched_law(graph, kernel))
    K = wk.estimate_kernel(copies(graph, repeats), kernel, 256, ensembles=ensembles, sampler=sampler, seed=1)
    product = K.estimate_product(np.tile(V, (repeats, 1)))
    value, stderr = (array.reshape(repeats, n, 2) for array in product)
    exact = wk.exact_kernel(graph, kernel) @ V
    inside = np.abs(value - exact) <= student.isf(0.025, product.n_groups - 1) * stderr
    walked = graph.out_degrees() > 0  # what is known of an isolated node has no error
    return [share(inside[:, walked, column]) for column in (0, 1)]


CELLS = [
    (kind, name, ensembles)
    for kind in GRAPHS
    for name in KERNELS
    for ensembles in ("independent", "debiased")
]


@pytest.mark.parametrize(
    ("kind", "name", "ensembles"),
    mostly_deep(
        CELLS, [("karate", "diffusion t=1", "independent"), ("weighted", "laplacian d=1", "debiased")]
    ),
)
def test_intervals_of_products_cover(kind, name, ensembles):
    (product, spread), (sums, spread_of_sums) = cell(GRAPHS[kind](), name, ensembles)
    print(
        f"{kind:10s} {ensembles:11s} {name:14s} K v {product:.4f} ± {spread:.4f}   "
        f"row sums {sums:.4f} ± {spread_of_sums:.4f}"
    )
    assert 0.93 < product < 0.97, (product, spread)
    assert 0.93 < sums < 0.97, (sums, spread_of_sums)


@pytest.mark.parametrize("ensembles", ["independent", "debiased"])
def test_errors_of_one_side_alone_do_not(monkeypatch, ensembles):
    """Sabotage: without L̄ du_g."""
    monkeypatch.setattr(_groups, "_multiply_groups", lambda features, *groups, **_: np.zeros((1, 1)))
    (product, _), (sums, _) = cell(graphs.karate(), "diffusion t=5", ensembles)
    assert product < 0.9
    assert sums < 0.93


def test_groups_that_are_not_independent_do_not(monkeypatch):
    """Sabotage: single walks as groups where 16 of them are coupled."""
    monkeypatch.setattr(_groups, "count_groups", lambda *_: 256)
    (product, _), (sums, _) = cell(graphs.karate(), "diffusion t=1", "debiased")
    assert not 0.93 < product < 0.97
    assert not 0.93 < sums < 0.97


@pytest.mark.parametrize("normalize", [False, True])
def test_intervals_of_smoothed_values_cover(normalize):
    for kind, graph in (("karate", graphs.karate()), ("directed", graphs.directed())):
        n, repeats, kernel = graph.n_nodes, 200, KERNELS["diffusion t=5"]
        known, y = np.arange(0, n, 3), np.random.default_rng(0).standard_normal(len(range(0, n, 3)))
        everywhere = (n * np.arange(repeats)[:, None] + known).ravel()
        model = wk.NodeSmoother(
            copies(graph, repeats), kernel, average=normalize, n_walks=128, method="walks"
        )
        model.fit(everywhere, np.tile(y, repeats))
        value, stderr = (
            part.reshape(repeats, n) for part in model.predict(np.arange(repeats * n), return_std=True)
        )
        K = wk.exact_kernel(graph, kernel)[:, known]
        exact = K @ y / (K.sum(axis=1) if normalize else 1.0)
        covered, spread = share(np.abs(value - exact) <= student.isf(0.025, 15) * stderr)
        print(f"{kind:8s} normalize={normalize}: {covered:.4f} ± {spread:.4f}")
        assert 0.93 < covered < 0.97


@pytest.mark.deep
def test_upper_bounds_of_entries():
    """Their coverage is printed by the true relative error, the spread over the copies."""
    for kind in ("karate", "grid"):
        graph = GRAPHS[kind]()
        kernel, n, repeats = KERNELS["diffusion t=1"], graph.n_nodes, 60
        i, j = (part.ravel()[::5] for part in np.indices((n, n)))
        first = n * np.arange(repeats)[:, None]
        entries = wk.estimate_kernel(copies(graph, repeats), kernel, 256, seed=1).estimate(
            first + i, first + j
        )
        exact = wk.exact_kernel(graph, kernel)[i, j]
        relative = np.sqrt(np.mean((entries.value - exact) ** 2, axis=0)) / exact
        end = entries.interval()[1]
        for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0), (1.0, np.inf)):
            own = (relative >= low) & (relative < high)
            if own.any():
                shares = [
                    part[:, own].mean() for part in (entries.rare, end >= exact, entries.upper >= exact)
                ]
                print(
                    f"{kind:7s} relative error {low:.2f}–{high:.2f}: {own.sum():4d} entries, "
                    f"rare {shares[0]:.3f}, below the interval's end {shares[1]:.3f}, "
                    f"below the upper bound {shares[2]:.3f}"
                )
        assert (entries.upper >= end).all()
