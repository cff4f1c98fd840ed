"""One suite over all engines: walk (each pair and ensemble), lazy, stitched, polynomial; on labels, ids."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from scipy.sparse.linalg import LinearOperator

import graphs
import walkernel as wk

KERNEL = wk.Diffusion(1.0)


def labelled(directed=False):
    A = graphs.random_matrix(12, 0.3, seed=1, symmetric=not directed)
    edges = [(f"n{i}", f"n{j}") for i, j in zip(*np.nonzero(A), strict=True)]
    return wk.Graph.from_edges(edges, directed=directed)


def nodes_of(graph, count=5):
    return list(graph.names(np.arange(graph.n_nodes))[::2][:count])


ENGINES = {
    "independent": lambda g, **k: wk.estimate_kernel(g, KERNEL, 64, ensembles="independent", **k),
    "debiased": lambda g, **k: wk.estimate_kernel(g, KERNEL, 64, ensembles="debiased", **k),
    "shared": lambda g, **k: wk.estimate_kernel(g, KERNEL, 64, ensembles="shared", **k),
    "lazy": lambda g, **k: wk.estimate_kernel(g, KERNEL, 64, pair="lazy", **k),
    "stitched": lambda g: wk.estimate_kernel(g, KERNEL, 64, stitches=3),
    "stitched independent": lambda g: wk.estimate_kernel(g, KERNEL, 64, stitches=2, ensembles="independent"),
    "stitched shared": lambda g: wk.estimate_kernel(g, KERNEL, 64, stitches=3, ensembles="shared"),
    "stitched directed": lambda g: wk.estimate_kernel(labelled(directed=True), KERNEL, 64, stitches=2),
    "polynomial": lambda g: wk.polynomial_operator(g, KERNEL),
    "directed": lambda g, **k: wk.estimate_kernel(labelled(directed=True), KERNEL, 64, **k),
    "directed polynomial": lambda g: wk.polynomial_operator(labelled(directed=True), KERNEL),
    "random walk": lambda g, **k: wk.estimate_kernel(g, wk.PageRank(0.6), 64, **k),
    "random walk stitched": lambda g: wk.estimate_kernel(
        g, KERNEL.set_params(matrix="random-walk"), 64, stitches=2
    ),
    "random walk polynomial": lambda g: wk.polynomial_operator(g, wk.PageRank(0.6)),
}


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(params=["labels", "ids"])
def operator(request, engine):
    graph = labelled() if request.param == "labels" else graphs.unweighted()
    return ENGINES[engine](graph)


def test_products(operator):
    K, n = operator.to_dense(), operator.shape[0]
    rng = np.random.default_rng(0)
    v, V = rng.standard_normal(n), rng.standard_normal((n, 3))
    assert isinstance(operator, LinearOperator)
    assert np.allclose(operator @ v, K @ v)
    assert np.allclose(operator @ V, K @ V)
    assert np.allclose(operator @ np.ones(n, dtype=int), K.sum(axis=1))
    assert np.allclose(operator.matvec(v), K @ v)
    assert np.allclose(operator.rmatvec(v), K.T @ v)
    assert np.allclose(operator.T @ V, K.T @ V)
    assert np.allclose(operator.H @ v, K.T @ v)
    assert np.allclose(v @ operator, v @ K)
    assert np.allclose(operator.dot(v), K @ v)
    assert np.allclose((2 * operator + operator) @ v, 3 * K @ v)
    assert isinstance(operator.T, wk.KernelOperator)
    assert np.allclose(operator.T.to_dense(), K.T)


def test_kernels(operator):
    assert isinstance(operator.kernel, wk.Kernel)
    assert operator.T.kernel == operator.kernel


def test_entries_rows_and_diagonal(operator):
    K, n = operator.to_dense(), operator.shape[0]
    nodes = operator.nodes
    i, j = np.arange(0, n, 2), np.arange(n - 1, -1, -1)[: len(range(0, n, 2))]
    assert np.allclose(operator.diagonal(), np.diag(K))
    assert np.allclose(operator.entries(nodes[i], nodes[j]), K[i, j])
    assert np.allclose(operator.entries(nodes[i][:, None], nodes[None, j]), K[np.ix_(i, j)])
    assert operator.entries(nodes[1], nodes[2]).shape == ()
    assert operator.entries(nodes[1], nodes[2]) == pytest.approx(K[1, 2])
    assert np.allclose(operator.rows(nodes[i]), K[i])
    assert operator.rows(nodes[0]).shape == (1, n)


@pytest.mark.filterwarnings("ignore:.*topk")  # of walks that are few
def test_topk_agrees_with_the_dense_matrix(operator):
    K, nodes = operator.to_dense(), operator.nodes
    np.fill_diagonal(K, -np.inf)
    found = operator.topk(nodes[:4], 3)
    assert found.nodes.shape == found.values.shape == (4, 3)
    for i in range(4):
        best = np.sort(K[i])[::-1][:3]
        assert np.allclose(np.nan_to_num(found.values[i]), np.maximum(best, 0))
        for name, value in zip(found.nodes[i], found.values[i], strict=True):
            if value > 0:
                assert operator.entries(nodes[i], name) == pytest.approx(value)


def test_topk_says_where_too_few_nodes_are_reached():
    graph = wk.Graph.from_edges([("a", "b"), ("c", "d"), ("d", "e")])
    found = wk.polynomial_operator(graph, KERNEL).topk(["a", "c"], 3)
    assert found.nodes.tolist() == [["b", None, None], ["d", "e", None]]
    assert np.isnan(found.values).tolist() == [[False, True, True], [False, False, True]]
    isolated = wk.Graph.from_edges([(0, 1)], n_nodes=3)
    with pytest.warns(UserWarning, match="topk: the walks found fewer than 2 similar nodes"):
        nodes = wk.estimate_kernel(isolated, KERNEL, 64).topk([2], 2).nodes
    with pytest.raises(IndexError):
        np.arange(3)[nodes]


@pytest.mark.parametrize("name", ["independent", "debiased", "shared", "lazy", "directed", "random walk"])
def test_subset_is_the_block_of_the_whole(name):
    graph = labelled(directed=name == "directed")
    chosen = nodes_of(graph)
    whole, part = ENGINES[name](graph), ENGINES[name](graph, nodes=chosen)
    where = graph.ids(chosen)
    assert part.shape == (5, 5)
    assert part.nodes.tolist() == chosen
    assert np.allclose(part.to_dense(), whole.to_dense()[np.ix_(where, where)])
    assert np.allclose(part @ np.ones(5), part.to_dense().sum(axis=1))
    assert np.allclose(part.entries(chosen[2], chosen[1]), whole.entries(chosen[2], chosen[1]))


def test_lazy_rows_reach_all_columns():
    graph = labelled()
    chosen = nodes_of(graph, 3)
    part = wk.estimate_kernel(graph, KERNEL, 64, pair="lazy", nodes=chosen)
    whole = wk.estimate_kernel(graph, KERNEL, 64, pair="lazy")
    assert part.rows(chosen).shape == (3, graph.n_nodes)
    assert np.allclose(part.rows(chosen), whole.to_dense()[graph.ids(chosen)])


def test_kinds_of_ensembles():
    graph = graphs.unweighted()
    shared, debiased = (
        wk.estimate_kernel(graph, KERNEL, 8, ensembles=e).to_dense() for e in ("shared", "debiased")
    )
    assert np.linalg.eigvalsh(shared).min() > -1e-12
    assert np.allclose(debiased, debiased.T)
    off = ~np.eye(len(shared), dtype=bool)
    assert np.allclose(shared[off], debiased[off])
    assert (np.diag(shared) >= np.diag(debiased)).all()


def test_debiased_diagonal_is_the_mean_over_pairs_of_walks():
    graph, m = graphs.weighted(), 5
    walks = wk.sample_walks(graph, m, seed=4)
    f = KERNEL.modulation(500)
    single = np.zeros((graph.n_nodes, m, graph.n_nodes))
    record, walk = walks.deposits, -1
    for i in range(graph.n_nodes):
        walk = -1
        for d in range(record.indptr[i], record.indptr[i + 1]):
            walk += record.lengths[d] == 0
            single[i, walk, record.nodes[d]] += record.loads[d] * f[record.lengths[d]]
    pairs = np.einsum("ikv,ilv->ikl", single, single)
    expected = (pairs.sum(axis=(1, 2)) - np.einsum("ikk->i", pairs)) / (m * (m - 1))
    K = wk.estimate_kernel(graph, KERNEL, m, seed=4, ensembles="debiased", sampler=wk.IndependentWalks())
    assert np.allclose(K.diagonal(), expected)


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-2, 1e-5])
@pytest.mark.parametrize("kernel", [wk.PageRank(0.9), wk.RegularizedLaplacian(1, 3.0)], ids=str)
def test_few_products_are_enough_for_a_large_tolerance(kernel, tol):
    """Also on directed graphs, where powers are summed: to a relative error of tol in the maximum norm."""
    graph = graphs.directed()
    K, exact = wk.polynomial_operator(graph, kernel, tol=tol), wk.exact_kernel(graph, kernel)
    assert np.abs(K.to_dense() - exact).max() <= tol * kernel.coefficients(2000).sum()
    assert K.polynomial.n_products <= 1 + np.log(tol) / np.log(0.9)


@pytest.mark.parametrize("kind", graphs.KINDS)
@pytest.mark.parametrize("matrix", ["normalized", "adjacency", "combinatorial", "random-walk"])
@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_polynomial_equals_exact(kind, matrix, sigma):
    graph, kernel = graphs.KINDS[kind](), wk.Diffusion(sigma, matrix=matrix)
    if (kind, matrix) == ("signed", "random-walk"):
        with pytest.raises(ValueError, match=r"polynomial_operator: graph must be without negative weights"):
            wk.polynomial_operator(graph, kernel)
        return
    exact = wk.exact_kernel(graph, kernel)
    K = wk.polynomial_operator(graph, kernel)
    ends = (-1.0, 1.0)
    if matrix == "adjacency":
        rho = max(abs(np.linalg.eigvals(np.abs(graph.to_scipy().toarray()))))
        ends = (-rho, rho)
    assert np.abs(K.to_dense() - exact).max() <= 1.001e-10 * np.abs(kernel.spectrum(ends)).max()


@pytest.mark.parametrize(
    "kernel", [wk.RegularizedLaplacian(1, 5.0), wk.InverseCosine(), wk.PowerSeries([0, 1.0])]
)
@pytest.mark.parametrize("kind", ["unweighted", "directed"])
def test_polynomial_of_other_kernels(kernel, kind):
    graph = graphs.KINDS[kind]()
    exact = wk.exact_kernel(graph, kernel)
    assert np.abs(wk.polynomial_operator(graph, kernel).to_dense() - exact).max() <= 1e-10 * np.linalg.norm(
        exact, 2
    )


def test_exact_kernel_against_scipy():
    for graph in (graphs.weighted(), graphs.directed(), graphs.signed()):
        M = graph.to_scipy("normalized").toarray()
        L = np.eye(len(M)) - M
        assert np.allclose(
            wk.exact_kernel(graph, wk.Diffusion(1.5)), scipy.linalg.expm(-(1.5**2) / 2 * L), atol=1e-13
        )
        inverse = np.linalg.inv(np.eye(len(M)) + 4 * L)
        assert np.allclose(
            wk.exact_kernel(graph, wk.RegularizedLaplacian(2, 2.0)), inverse @ inverse, atol=1e-13
        )


def test_polynomial_on_a_million_nodes():
    rng = np.random.default_rng(0)
    n = 10**6
    graph = wk.Graph.from_edges(rng.integers(0, n, (2 * n, 2)), n_nodes=n)
    K = wk.polynomial_operator(graph, wk.Diffusion(1.0))
    degrees = graph.out_degrees()
    v = np.sqrt(degrees)
    expected = np.where(degrees > 0, 1.0, np.exp(-0.5)) * v
    assert np.abs(K @ v - expected).max() < 1e-9, (
        "√d is an eigenvector of the normalized matrix, with value 1"
    )
    assert "polynomial of degree" in repr(K)
    with pytest.raises(ValueError, match="estimate_kernel"):
        K.diagonal()


class TestChoices:
    @pytest.mark.parametrize(
        "kernel",
        [
            wk.PowerSeries([0.0, 1.0]),
            wk.PowerSeries([-1.0, 2.0]),
            wk.PowerSeries([1.0, -1.0]),
            wk.PStepRandomWalk(3, 2.0),
            wk.InverseCosine(),
            -1.0 * wk.Diffusion(),
        ],
    )
    def test_auto_takes_the_lazy_pair_where_the_symmetric_one_fails(self, kernel):
        K = wk.estimate_kernel(graphs.karate(), kernel, 16)
        assert K.pair == "lazy"
        assert "lazy" in repr(K)
        assert K.note

    @pytest.mark.parametrize(
        "kernel", [wk.Diffusion(), wk.PStepRandomWalk(2), wk.PowerSeries([1.0, -2.0, 1.0])]
    )
    def test_auto_takes_the_symmetric_pair_elsewhere(self, kernel):
        K = wk.estimate_kernel(graphs.karate(), kernel, 16)
        assert (K.pair, K.ensembles, K.note) == ("symmetric", "debiased", "")

    def test_ensembles_by_default(self):
        graph = graphs.karate()
        assert wk.estimate_kernel(graph, KERNEL, 1).ensembles == "independent"
        assert wk.estimate_kernel(graphs.directed(), KERNEL, 8).ensembles == "independent"

    def test_budget_counts_all_steps(self):
        graph, calls = graphs.karate(), []
        options = {"budget": 34 * 9 * 20, "sampler": wk.IndependentWalks(0.1)}
        K = wk.estimate_kernel(graph, KERNEL, progress=lambda done, total: calls.append(done), **options)
        assert calls[-1] == 34
        same = {"sampler": options["sampler"]}
        assert np.array_equal(K.to_dense(), wk.estimate_kernel(graph, KERNEL, 20, **same).to_dense())
        twice = wk.estimate_kernel(graph, KERNEL, ensembles="independent", **options)
        same["ensembles"] = "independent"
        assert np.array_equal(twice.to_dense(), wk.estimate_kernel(graph, KERNEL, 10, **same).to_dense())

    def test_long_kernels_get_long_walks(self):
        """(I + 100 L)^-1 has infinite variance at p_halt = 0.1; the default halts less often."""
        kernel = wk.RegularizedLaplacian(1, 10.0)
        graph = graphs.karate()
        K = wk.estimate_kernel(graph, kernel, 2000)
        exact = wk.exact_kernel(graph, kernel)
        assert np.linalg.norm(K.to_dense() - exact) < 0.2 * np.linalg.norm(exact)

    def test_infinite_variance_is_said(self):
        graph = graphs.karate()
        for options in ({"pair": "symmetric"}, {"sampler": wk.IndependentWalks(0.5), "pair": "symmetric"}):
            with pytest.warns(wk.InfiniteVarianceWarning):
                wk.estimate_kernel(graph, wk.InverseCosine(), 8, **options)
        with pytest.warns(wk.InfiniteVarianceWarning, match="p_halt below"):
            wk.estimate_kernel(graph, wk.RegularizedLaplacian(2, 2.0), 8, sampler=wk.IndependentWalks(0.5))
        with pytest.warns(wk.InfiniteVarianceWarning):
            wk.sample_walks(graph, 8, sampler=wk.IndependentWalks(0.5)).features(
                wk.RegularizedLaplacian(2, 2.0)
            )

    def test_divergence_is_said_with_numbers(self):
        kernel = wk.RegularizedLaplacian(1, 2.0, matrix="adjacency")
        with pytest.raises(
            wk.DivergentKernelError,
            match=r"spectral radius of its adjacency matrix is 6\.\d+ and must be below 1\.25",
        ):
            wk.exact_kernel(graphs.karate(), kernel)


def test_operators_solve_with_scipy():
    graph = graphs.karate()
    K = wk.estimate_kernel(graph, KERNEL, 512, ensembles="shared")
    y = np.random.default_rng(0).standard_normal(34)
    noisy = K + 0.1 * scipy.sparse.linalg.aslinearoperator(np.eye(34))
    x, code = scipy.sparse.linalg.cg(noisy, y, rtol=1e-10)
    assert code == 0
    assert np.allclose(K.to_dense() @ x + 0.1 * x, y, atol=1e-8)
