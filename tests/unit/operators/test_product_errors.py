"""Error bars of products, nearest nodes and rare entries: the formulas by hand, on every kind of operator."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.features import Lazy
from walkernel.operators import Estimate, _groups
from walkernel.operators._neighbors import belonging

pytestmark = pytest.mark.usefixtures("few_or_many_walks")
KERNEL = wk.Diffusion(1.5)
CASES = [
    *(("weighted", ensembles) for ensembles in ("independent", "shared", "debiased", "lazy")),
    *(("directed", ensembles) for ensembles in ("independent", "lazy")),
    ("isolated", "debiased"),
]


def group_features(graph, ids, stream=0, transpose=False, sequence=KERNEL):
    walks = wk.sample_walks(graph, 64, seed=5, stream=stream, transpose=transpose)
    rows = walks.in_groups(16).features(sequence).toarray()
    return rows.reshape(graph.n_nodes, 16, -1).swapaxes(0, 1)[:, ids]


def both_sides(graph, ids, ensembles):
    """Features of groups, (16, n, n_nodes), of the left- and the right-hand side."""
    if ensembles == "lazy":
        left = group_features(graph, ids, sequence=Lazy(KERNEL))
        return left, np.broadcast_to(np.eye(graph.n_nodes)[ids], left.shape)
    left = group_features(graph, ids)
    return left, left if ensembles != "independent" else group_features(graph, ids, 1, graph.directed)


def by_hand(left, right, V):
    """The jackknife of L̄ R̄ᵀ V without what is of second order, which is taken off once.

    That is what the first four groups of one side make of the twelve others of the other side.
    """
    d_left, d_right = left - left.mean(axis=0), right - right.mean(axis=0)
    moved = np.einsum("gjx,jc->gxc", d_right, V)
    deviations = d_left @ (right.mean(axis=0).T @ V) + left.mean(axis=0) @ moved
    variances = (deviations**2).sum(axis=0) / (16 * 15)
    few = left[:4] - left[:4].mean(axis=0)
    squares = (np.einsum("gix,hxc->ghic", few, moved[4:]) ** 2).sum(axis=(0, 1))
    twice = squares / (3 * 12 * 16 * 15)
    once = np.where(twice <= variances / 2, variances - twice, (variances / 2 + twice) / 2)
    return np.sqrt(once)


def estimate(graph, ensembles, **options):
    how = {"pair": "lazy"} if ensembles == "lazy" else {"ensembles": ensembles}
    return wk.estimate_kernel(graph, KERNEL, 64, seed=5, sampler=wk.IndependentWalks(), **how, **options)


@pytest.mark.parametrize("nodes", [None, [7, 3, 9, 20, 1]])
@pytest.mark.parametrize(("kind", "ensembles"), CASES)
def test_products_by_hand(kind, ensembles, nodes):
    graph = graphs.KINDS[kind]()
    K = estimate(graph, ensembles, nodes=nodes)
    ids = np.arange(graph.n_nodes) if nodes is None else np.array(nodes)
    left, right = both_sides(graph, ids, ensembles)
    V = np.random.default_rng(0).standard_normal((ids.size, 3))
    for operator, sides in ((K, (left, right)), (K.T, (right, left))):
        product = operator.estimate_product(V)
        expected = by_hand(*sides, V)
        assert np.array_equal(product.value, operator @ V)
        assert np.allclose(product.stderr, expected, rtol=1e-5, atol=1e-6 * expected.max())
        assert product.n_groups == 16
        one = operator.estimate_product(V[:, 1])
        assert one.value.shape == one.stderr.shape == (ids.size,)
        assert np.allclose(one.stderr, product.stderr[:, 1], rtol=1e-6)


def test_what_is_left_out_is_small():
    """The whole jackknife, with the term of both deviations, differs by a few per cent."""
    graph = graphs.weighted()
    ids, V = np.arange(graph.n_nodes), np.random.default_rng(0).standard_normal((graph.n_nodes, 3))
    left, right = both_sides(graph, ids, "independent")
    without = [np.delete(left, g, 0).mean(0) @ (np.delete(right, g, 0).mean(0).T @ V) for g in range(16)]
    whole = np.sqrt(15 * np.var(without, axis=0))
    assert np.allclose(estimate(graph, "independent").estimate_product(V).stderr, whole, rtol=0.05)


def test_row_sums():
    K = estimate(graphs.karate(), "debiased")
    sums, product = K.estimate_row_sums(), K.estimate_product(np.ones(34, dtype=int))
    assert np.array_equal(sums.value, K @ np.ones(34))
    assert np.array_equal(sums.stderr, product.stderr)
    assert not sums.rare.any()


def test_isolated_nodes_have_no_error():
    K = estimate(graphs.isolated(), "debiased")
    assert (K.estimate_row_sums().stderr[30:] < 1e-15).all()


@pytest.mark.parametrize("coupled", [False, True])
def test_same_bits_on_any_number_of_threads(monkeypatch, coupled):
    graph = graphs.karate()
    sampler = wk.CoupledWalks(wk.matched_law(graph, KERNEL)) if coupled else wk.IndependentWalks(0.4)
    K = wk.estimate_kernel(graph, KERNEL, 512, sampler=sampler)  # 8192 walks make a task
    V, results = np.random.default_rng(0).standard_normal((34, 2)), []
    for threads in (1, 2, 5):
        monkeypatch.setenv("WALKERNEL_NUM_THREADS", str(threads))
        results.append(K.estimate_product(V).stderr)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_columns_may_come_in_parts(monkeypatch):
    K, V = estimate(graphs.karate(), "debiased"), np.random.default_rng(0).standard_normal((34, 5))
    together = K.estimate_product(V).stderr
    monkeypatch.setattr(_groups, "SUMS_AT_ONCE", 2 * 16 * 34)
    assert np.array_equal(K.estimate_product(V).stderr, together)


def test_deterministic_products_have_no_error():
    K = wk.polynomial_operator(graphs.karate(), KERNEL)
    for product in (K.estimate_product(np.arange(34)), K.T.estimate_row_sums()):
        assert (product.stderr == 0).all()
        assert product.n_groups == 0
        assert np.array_equal(product.upper, product.value)
    best = K.estimate_topk([0, 1], 3)
    assert (best.stderr == 0).all()


def test_bad_products_are_refused():
    K = estimate(graphs.karate(), "debiased")
    with pytest.raises(ValueError, match="of length 34, one value for each node"):
        K.estimate_product(np.ones(33))
    with pytest.raises(TypeError, match="a real vector or matrix"):
        K.estimate_product(["a"] * 34)
    few = wk.estimate_kernel(graphs.karate(), KERNEL, 1)
    with pytest.raises(ValueError, match="estimate_product: n_walks must be enough for two groups of walks"):
        few.estimate_product(np.ones(34))


@pytest.mark.parametrize("n_walks", [2, 3, 4, 7, 37])
def test_any_number_of_groups(n_walks):
    product = wk.estimate_kernel(graphs.karate(), KERNEL, n_walks).estimate_row_sums()
    assert product.n_groups == n_walks
    assert (product.stderr > 0).all()


def test_nearest_nodes():
    graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y")])
    K = wk.estimate_kernel(graph, KERNEL, 64)
    with pytest.warns(UserWarning, match="fewer than 3 similar nodes.*for node 'x'"):
        plain = K.topk(["d", "x"], 3)
    best = K.estimate_topk(["d", "x"], 3)
    assert best.nodes.tolist() == plain.nodes.tolist()
    assert np.array_equal(best.values, plain.values, equal_nan=True)
    assert np.allclose(best.stderr[0], K.estimate("d", best.nodes[0]).stderr, rtol=1e-12)
    assert best.stderr[1, 0] > 0
    assert np.isnan(best.stderr[1, 1:]).all()
    assert best.certified.shape == (2, 3)
    assert not best.certified[1].all()
    with pytest.raises(ValueError, match="estimate_topk: k must be"):
        K.estimate_topk(["d"], 0)


@pytest.mark.parametrize(
    ("stderr", "n_others", "next_value", "certified"),
    [(0.3, 1, np.nan, True), (0.2, 100, np.nan, False), (0.15, 100, np.nan, True), (0.08, 100, 0.5, False),
     (0.05, 100, 0.5, True)],
)  # fmt: skip
def test_neighbors_are_compared_with_nodes_that_were_not_examined(stderr, n_others, next_value, certified):
    """The one node examined is the nearest if it is the only one, or larger than any that walks may miss.

    At a level of ε = .05/100 it is 1 − 3.48 s at least, for a standard error s, and others are at most μ with
    (μ − x)² = 2 s² μ log(1/ε), where x is the largest of their values, or 0 where no walk reached any.
    """
    found = Estimate(np.ones(1), np.full(1, stderr), 16)
    there, values = np.array([[True, False]]), np.array([[1.0, next_value]])
    assert belonging(found, there, values, 1, n_others, beyond=10.0).tolist() == [[certified]]


@pytest.mark.parametrize(("difference", "certified"), [(1e-14, False), (1e-10, True)])
def test_values_that_differ_by_rounding_are_ties(difference, certified):
    graph = wk.Graph.from_edges([(0, 1), (0, 2)], weights=[1.0 + difference, 1.0])
    best = wk.polynomial_operator(graph, wk.Diffusion(0.5, matrix="adjacency")).estimate_topk([0], 1)
    assert best.nodes.tolist() == [[1]]
    assert best.certified.tolist() == [[certified]]


def test_rare_entries():
    graph = wk.Graph.from_edges([(i, i + 1) for i in range(40)])
    exact = wk.exact_kernel(graph, KERNEL)
    for K in (estimate(graph, "debiased"), estimate(graph, "independent").T, estimate(graph, "lazy")):
        entries = K.estimate(0, [0, 1, 5, 40])
        assert entries.rare.tolist()[:2] == [False, False]
        assert entries.rare[3]
        assert (entries.upper >= exact[0, [0, 1, 5, 40]]).all()
        assert np.array_equal(entries.upper[:2], entries.interval()[1][:2])
        assert K.estimate([[0], [1]], [0, 40]).upper.shape == (2, 2)
    alone = KERNEL.coefficients(1)[0]
    assert entries.upper[3] == pytest.approx(1 - alone), "Σ αₖ of the diffusion kernel over k ≥ 1"
    directed = wk.estimate_kernel(graphs.directed(), wk.Diffusion(1.5, matrix="adjacency"), 16)
    i, j = np.indices((30, 30))
    far = directed.estimate(i, j)
    assert np.isposinf(far.upper[far.rare]).all()
    assert np.isfinite(far.upper[~far.rare]).all()
