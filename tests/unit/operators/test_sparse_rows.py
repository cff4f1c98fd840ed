"""The largest entries of the rows of a kernel: exact, from walks, and what is refused."""

import tracemalloc

import networkx
import numpy as np
import pytest

import graphs
import walkernel as wk
from engines import Processes
from walkernel.engines import CPU
from walkernel.operators import _sparse_rows

KERNELS = [
    wk.PageRank(0.85),
    wk.PageRank(0.85, matrix="normalized"),
    wk.Diffusion(2.0),
    wk.Diffusion(0.3, matrix="adjacency"),
    wk.Matern(1.5, 2.0, matrix="combinatorial"),
    wk.InverseCosine(),  # has negative entries
]


def largest(K, k):
    """Keep the k largest entries of each row of a dense matrix, if they are positive and not rounding."""
    least = np.sort(K, axis=1)[:, ::-1][:, min(k, len(K)) - 1, None]
    return np.where((least - 1e-12 <= K) & (1e-9 * K.max(axis=1, keepdims=True) < K), K, 0.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("kind", ["weighted", "directed", "isolated", "signed"])
def test_exact_rows_are_those_of_the_dense_kernel(kind, kernel):
    graph = graphs.KINDS[kind]()
    if kind == "signed" and kernel.matrix == "random-walk":
        kernel = wk.Matern(1.0, 3.0)
    if kind == "directed" and kernel.matrix == "combinatorial":
        kernel = wk.Diffusion(1.0, matrix="combinatorial")
    K = wk.exact_kernel(graph, kernel)
    if kind in ("weighted", "directed"):
        np.testing.assert_allclose(wk.sparse_kernel(graph, kernel, k=4).toarray(), largest(K, 4), atol=1e-8)
    everything = np.where(1e-9 * K.max(axis=1, keepdims=True) < K, K, 0.0)
    np.testing.assert_allclose(wk.sparse_kernel(graph, kernel, k=99).toarray(), everything, atol=1e-8)
    found = wk.sparse_kernel(graph, kernel, threshold=0.05)
    np.testing.assert_allclose(found.toarray(), np.where(K >= 0.05, K, 0.0), atol=1e-8)
    assert found.has_sorted_indices
    assert (found.data > 0).all()


def test_walks_are_near_and_come_with_more_of_them():
    graph, kernel = graphs.karate(), wk.PageRank(0.9)
    K = wk.exact_kernel(graph, kernel)
    errors = []
    for n_walks in (64, 4096):
        found = wk.sparse_kernel(graph, kernel, k=6, method="walks", n_walks=n_walks).toarray()
        assert ((found > 0).sum(axis=1) == 6).all()
        errors.append(np.abs(found - K)[found > 0].sum() / largest(K, 6).sum())
        assert (K * (found > 0)).sum() > 0.9 * largest(K, 6).sum()
    assert errors[1] < errors[0] / 4 < 0.1
    assert errors[1] < 0.01


def test_the_first_of_equal_entries_are_kept():
    star = wk.Graph.from_edges([(0, i) for i in range(1, 8)])
    found = wk.sparse_kernel(star, wk.PowerSeries([2.0, 1.0], matrix="adjacency"), k=3)
    assert found[[0]].indices.tolist() == [0, 1, 2]
    assert found[[5]].indices.tolist() == [0, 5]


def test_the_method_is_chosen_by_the_work(monkeypatch):
    graph, kernel = graphs.karate(), wk.Diffusion(1.0)
    exact = wk.sparse_kernel(graph, kernel, k=5, method="polynomial")
    assert abs(wk.sparse_kernel(graph, kernel, k=5) - exact).max() == 0
    monkeypatch.setattr(_sparse_rows, "EXACT_WORK", 10.0)
    walked = wk.sparse_kernel(graph, kernel, k=5, seed=2)
    assert abs(walked - exact).max() > 0
    assert abs(walked - wk.sparse_kernel(graph, kernel, k=5, method="walks", seed=2)).max() == 0


@pytest.mark.parametrize("method", ["polynomial", "walks"])
def test_blocks_and_engines_change_nothing(method, monkeypatch):
    graph, kernel = graphs.karate(), wk.PageRank(0.85)
    options = {"k": 5, "method": method, "n_walks": 32}
    whole, calls = wk.sparse_kernel(graph, kernel, engine=CPU(1), **options), []
    monkeypatch.setattr(_sparse_rows, "ENTRIES_AT_ONCE", 1)
    parts = wk.sparse_kernel(graph, kernel, engine=CPU(3), progress=lambda *own: calls.append(own), **options)
    assert abs(whole - parts).max() < 1e-15
    assert calls == [(8, 34), (16, 34), (24, 34), (32, 34), (34, 34)]
    other = wk.sparse_kernel(graph, kernel, engine=Processes(2), **options)
    assert abs(whole - other).max() < 1e-14


def test_labels_stand_in_the_way_of_nothing():
    pairs = [("b", "a"), ("a", "c"), ("c", "d"), ("d", "b"), ("b", "e")]
    named, plain = wk.Graph.from_edges(pairs), wk.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4)])
    for method in ("polynomial", "walks"):
        rows = [wk.sparse_kernel(graph, wk.Diffusion(), k=2, method=method) for graph in (named, plain)]
        assert abs(rows[0] - rows[1]).max() == 0


def test_the_memory_is_that_of_what_is_kept():
    """The dense matrix would take 800 MB; what is kept takes one, and a block of rows some tens."""
    graph = wk.Graph.from_networkx(networkx.random_regular_graph(4, 10_000, seed=0))
    wk.sparse_kernel(graphs.karate(), wk.Diffusion(), k=8, method="walks", n_walks=32)
    tracemalloc.start()
    found = wk.sparse_kernel(graph, wk.Diffusion(), k=8, method="walks", n_walks=32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.nnz == 80_000
    assert peak < 150e6


KARATE = graphs.karate()
HEAT = wk.Diffusion()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("graph", HEAT), {"k": 2}, TypeError, "graph must be a Graph"),
        ((KARATE, "heat"), {"k": 2}, TypeError, "kernel must be a Kernel"),
        ((KARATE, HEAT), {}, ValueError, "k must be given, or threshold instead of it, got neither"),
        ((KARATE, HEAT), {"k": 2, "threshold": 0.1}, ValueError, "k must be given.* got k=2 and threshold=0"),
        ((KARATE, HEAT), {"k": 0}, ValueError, "k must be a whole number of at least 1, got 0"),
        ((KARATE, HEAT), {"k": 1.5}, ValueError, "k must be a whole number of at least 1, got 1.5"),
        ((KARATE, HEAT), {"threshold": 0}, ValueError, "threshold must be a finite number greater than 0"),
        ((KARATE, HEAT), {"threshold": "0.1"}, TypeError, "threshold must be a finite number"),
        (
            (KARATE, HEAT),
            {"k": 2, "method": "push"},
            ValueError,
            "method must be one of 'auto', 'polynomial'",
        ),
        ((KARATE, HEAT), {"k": 2, "n_walks": 0}, ValueError, "n_walks must be a whole number from 1"),
        ((KARATE, HEAT), {"k": 2, "engine": 3}, TypeError, "engine must be"),
        ((graphs.signed(), wk.PageRank()), {"k": 2}, ValueError, "graph must be without negative weights"),
        ((KARATE, HEAT), {"k": 2, "progress": "yes"}, TypeError, "progress must be"),
    ],
)
def test_bad_arguments(arguments, options, error, message):
    with pytest.raises(error, match=f"sparse_kernel: {message}"):
        wk.sparse_kernel(*arguments, **options)


def test_divergent_kernels_are_refused():
    with pytest.raises(wk.DivergentKernelError, match="diverges on this graph"):
        wk.sparse_kernel(KARATE, wk.RegularizedLaplacian(sigma=2.0, matrix="adjacency"), k=2)
