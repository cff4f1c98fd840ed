"""``K.estimate``: shapes, addressing, all kinds of operators; and the formulas by hand."""

import numpy as np
import pytest

import graphs
import walkernel as wk

PAPER = wk.IndependentWalks(0.1)
KERNEL = wk.Diffusion(1.5)


def jackknife(statistic, groups):
    """The jackknife by the book: the statistic of all groups but one."""
    without = np.array([statistic(np.delete(groups, g, axis=0)) for g in range(len(groups))])
    return np.sqrt((len(groups) - 1) * without.var(axis=0))


def group_features(graph, n_walks, stream=0, transpose=False):
    walks = wk.sample_walks(graph, n_walks, seed=5, stream=stream, transpose=transpose)
    rows = walks.in_groups(16).features(KERNEL).toarray()
    return rows.reshape(graph.n_nodes, 16, -1).swapaxes(0, 1)


def every_pair(graph):
    return np.indices((graph.n_nodes,) * 2)


def jackknife_of(K):
    """What the groups of walks alone say of all entries."""
    i, j = every_pair(K.graph)
    return K.groups.entry_errors(*K.groups.of_entries(i.ravel(), j.ravel()))[0].reshape(K.shape)


@pytest.mark.parametrize("kind", ["unweighted", "directed"])
def test_independent_walks_by_hand(kind):
    graph = graphs.KINDS[kind]()
    K = wk.estimate_kernel(graph, KERNEL, 64, seed=5, ensembles="independent", sampler=wk.IndependentWalks())
    left, right = group_features(graph, 64), group_features(graph, 64, 1, graph.directed)
    both = np.stack([left, right], axis=1)
    expected = jackknife(lambda groups: groups[:, 0].mean(0) @ groups[:, 1].mean(0).T, both)
    estimate = K.estimate(*every_pair(graph))
    assert np.array_equal(estimate.value, K.to_dense()) or np.allclose(estimate.value, K.to_dense())
    assert np.allclose(jackknife_of(K), expected, rtol=1e-8)
    assert (estimate.stderr >= expected * (1 - 1e-8)).all()
    assert np.median(estimate.stderr / expected) < 1 + 1e-8, "most entries have no more than the jackknife's"
    assert estimate.n_groups == 16
    assert np.allclose(K.T.estimate(*every_pair(graph)).stderr, estimate.stderr.T, rtol=1e-8)


@pytest.mark.parametrize("ensembles", ["shared", "debiased"])
def test_shared_walks_by_hand(ensembles):
    graph = graphs.weighted()
    K = wk.estimate_kernel(graph, KERNEL, 64, seed=5, ensembles=ensembles, sampler=wk.IndependentWalks())

    def statistic(groups):
        mean = groups.mean(0)
        result = mean @ mean.T
        if ensembles == "debiased":
            n = len(groups)
            squares = (groups**2).sum(axis=2).sum(axis=0)
            np.fill_diagonal(result, (n**2 * (mean**2).sum(axis=1) - squares) / (n * (n - 1)))
        return result

    expected = jackknife(statistic, group_features(graph, 64))
    assert np.allclose(jackknife_of(K), expected, rtol=1e-8)


def test_addressing_shapes_and_intervals():
    graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    K = wk.estimate_kernel(graph, KERNEL, 64, nodes=["d", "b"])
    value, stderr = K.estimate("d", "b")
    assert value.shape == stderr.shape == ()
    assert value == K.entries("d", "b")
    assert K.estimate([["d"], ["b"]], ["d", "b"]).stderr.shape == (2, 2)
    whole = wk.estimate_kernel(graph, KERNEL, 64)
    assert whole.estimate("d", "b").stderr == pytest.approx(float(stderr), rel=1e-12)
    low, high = K.estimate("d", "b").interval(0.95)
    assert high - low == pytest.approx(2 * 2.13145 * float(stderr), rel=1e-5)
    with pytest.raises(ValueError, match="interval: level must be"):
        K.estimate("d", "b").interval(95)


def test_deterministic_operators_have_no_error():
    K = wk.polynomial_operator(graphs.karate(), KERNEL)
    estimate = K.estimate([0, 1], [2, 3])
    assert estimate.stderr.tolist() == [0.0, 0.0]
    assert np.array_equal(estimate.interval()[0], estimate.value)


def test_groups_are_at_least_sixteen_where_there_are_so_many():
    graph = graphs.karate()
    law = wk.matched_law(graph, KERNEL)
    for n_walks, sampler, groups in (
        (128, PAPER, 16), (100, PAPER, 20), (7, PAPER, 7), (37, PAPER, 37), (512, wk.CoupledWalks(law), 16),
        (64, wk.CoupledWalks(law), 4), (256, None, 16), (128, None, 16), (64, None, 16), (60, None, 15),
        (30, None, 15), (16, None, 4), (7, None, 7), (37, None, 37),
    ):  # fmt: skip
        K = wk.estimate_kernel(graph, KERNEL, n_walks, sampler=sampler)
        assert K.estimate(0, 1).n_groups == groups
    for n_walks, sampler in ((1, None), (16, wk.CoupledWalks(law)), (40, wk.CoupledWalks(law))):
        with pytest.raises(ValueError, match="estimate: n_walks must be enough for two groups of walks"):
            wk.estimate_kernel(graph, KERNEL, n_walks, sampler=sampler).estimate(0, 1)


def test_walks_in_groups():
    walks = wk.sample_walks(graphs.karate(), 12)
    parts = walks.in_groups(3).features(KERNEL).toarray().reshape(34, 3, 34)
    assert np.allclose(parts.mean(axis=1), walks.features(KERNEL).toarray())
    with pytest.raises(ValueError, match="in_groups: n_groups must be a divisor of 12"):
        walks.in_groups(5)


@pytest.mark.parametrize("options", [{}, {"n_walks": 256}, {"budget": 2400}])
def test_error_bars_have_the_rounding_of_dense_kernels(options):
    """Heads of eight hops have entries to twenty digits, more than any dense truth has."""
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]
    graph = wk.Graph.from_edges(edges, weights=[1, 1, 1, 1, 1, 1, 1e-7])
    exact, held = wk.exact_kernel(graph, wk.Diffusion(1.0)), []
    for seed in range(8):
        K = wk.estimate_kernel(graph, wk.Diffusion(1.0), seed=seed, **options)
        estimate = K.estimate(*np.indices((6, 6)))
        low, high = estimate.interval()
        held.append((low <= exact) & (exact <= high))
        assert not estimate.rare.any()
    assert np.mean(held) > 0.9


@pytest.mark.parametrize(
    "options", [{"ensembles": "independent"}, {"pair": "lazy"}, {"stitches": 2}], ids=str
)
def test_a_transpose_has_the_steps_of_its_walks(options):
    K = wk.estimate_kernel(graphs.karate(), KERNEL, 32, **options)
    assert K.T.n_steps == K.n_steps > 0
    assert K.T.T.n_steps == K.n_steps


@pytest.mark.parametrize(
    "options", [{"n_walks": 32}, {"budget": 400}, {"n_walks": 32, "ensembles": "independent"}]
)
def test_no_entries_have_no_error_bars(options):
    estimate = wk.estimate_kernel(graphs.karate(), wk.Diffusion(1.0), **options).estimate([], [])
    assert estimate.value.shape == estimate.stderr.shape == estimate.rare.shape == (0,)
