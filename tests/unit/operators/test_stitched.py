"""Stitched operators: the products by hand, what is chosen and said, the jackknife by the book, refusals."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.features import Symmetric

KERNEL = wk.Diffusion(1.5)
PAPER = wk.IndependentWalks(0.1)


def stitched(graph, stitches, n_walks=32, sampler=PAPER, **options):
    return wk.estimate_kernel(graph, KERNEL, n_walks, sampler=sampler, stitches=stitches, seed=5, **options)


def features(graph, stitches, stream, transpose=False, groups=1):
    """Φ of each group of walks, (groups, n, n)."""
    walks = wk.sample_walks(graph, 32, seed=5, stream=stream, transpose=bool(transpose))
    rows = walks.in_groups(groups).features(KERNEL.modulation(500, stitches=stitches)).toarray()
    return rows.reshape(graph.n_nodes, groups, -1).swapaxes(0, 1)


def product(matrices):
    return np.linalg.multi_dot(matrices)


def test_one_stitch_is_the_plain_operator():
    for kind in graphs.KINDS:
        graph = graphs.KINDS[kind]()
        plain = wk.estimate_kernel(graph, KERNEL, 16, seed=3)
        one = wk.estimate_kernel(graph, KERNEL, 16, seed=3, stitches=1)
        assert np.array_equal(plain.to_dense(), one.to_dense())
        assert type(plain) is type(one)
        assert one.stitches == 1


@pytest.mark.parametrize("stitches", [2, 3])
def test_debiased_factors_are_multiplied_in_both_orders(stitches):
    graph = graphs.weighted()
    K = stitched(graph, stitches)
    assert (K.pair, K.ensembles, K.stitches, len(K.factors), K.note) == (
        "symmetric", "debiased", stitches, stitches, ""
    )  # fmt: skip
    expected = []
    for i, factor in enumerate(K.factors):
        single = features(graph, stitches, 2 * i, groups=32)
        M = single.mean(axis=0) @ single.mean(axis=0).T
        pairs = np.einsum("giv,hiv->igh", single, single)
        np.fill_diagonal(M, (pairs.sum(axis=(1, 2)) - np.einsum("igg->i", pairs)) / (32 * 31))
        assert np.allclose(factor.to_dense(), M)
        expected.append(M)
    assert np.allclose(K.to_dense(), (product(expected) + product(expected[::-1])) / 2)
    assert np.allclose(K.to_dense(), K.to_dense().T, rtol=0, atol=1e-14)
    assert K.T is K


@pytest.mark.parametrize("kind", ["unweighted", "directed"])
def test_independent_factors(kind):
    graph = graphs.KINDS[kind]()
    K = stitched(graph, 2, ensembles="independent")
    sides = [features(graph, 2, stream, stream % 2 and graph.directed)[0] for stream in range(4)]
    P = sides[0] @ sides[1].T @ sides[2] @ sides[3].T
    assert np.allclose(K.to_dense(), P if graph.directed else (P + P.T) / 2)
    assert K.T.T is K


@pytest.mark.parametrize("stitches", [2, 3])
def test_shared_factors_are_positive_semidefinite(stitches):
    graph = graphs.unweighted()
    K = stitched(graph, stitches, 8, ensembles="shared").to_dense()
    F = product(
        [
            wk.sample_features(graph, Symmetric(KERNEL, stitches), 8, seed=5, stream=2 * i).toarray()
            for i in range(stitches)
        ]
    )
    assert np.allclose(K, F @ F.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_repr_tells():
    assert repr(stitched(graphs.karate(), 3, ensembles="shared")) == (
        "KernelOperator(34x34, stitches=3, pair='symmetric', ensembles='shared')"
    )


def test_walks_are_weighted_with_the_root():
    graph = graphs.weighted()
    walks = wk.sample_walks(graph, 16, seed=2)
    by_name, by_hand = (
        walks.features(Symmetric(KERNEL, 3)),
        walks.features(KERNEL.modulation(500, stitches=3)),
    )
    assert np.allclose(by_name.toarray(), by_hand.toarray())
    adjacency = wk.Diffusion(0.5, matrix="adjacency")
    K = wk.estimate_kernel(graph, adjacency, 16, seed=2, stitches=2, ensembles="shared")
    root = wk.sample_walks(graph, 16, seed=2, matrix="adjacency", sampler=K.factors[0].groups.left.sampler)
    assert np.allclose(
        root.features(Symmetric(adjacency, 2)).toarray(), K.factors[0].left.to_scipy().toarray()
    )


def test_budget_is_split_between_factors_and_sides():
    graph = graphs.karate()
    for ensembles, count in (("debiased", 10), ("independent", 5), ("shared", 10)):
        calls = []
        K = wk.estimate_kernel(
            graph, KERNEL, budget=34 * 9 * 20, sampler=PAPER, stitches=2, ensembles=ensembles,
            progress=lambda done, total, calls=calls: calls.append(done),
        )  # fmt: skip
        same = wk.estimate_kernel(graph, KERNEL, count, sampler=PAPER, stitches=2, ensembles=ensembles)
        assert np.array_equal(K.to_dense(), same.to_dense())
        assert calls.count(34) == 1


def test_law_and_sampler_are_those_of_the_root():
    graph, wide = graphs.karate(), wk.Diffusion(20.0)
    law = wk.matched_law(graph, wide, stitches=4)
    assert np.array_equal(law, wk.matched_law(graph, wk.Diffusion(10.0)))
    one, four = (wk.estimate_kernel(graph, wide, 4, stitches=stitches) for stitches in (1, 4))
    assert 3 < one.groups.left.sampler.mean_steps / four.factors[0].groups.left.sampler.mean_steps < 5
    matched = wk.CoupledWalks(law)
    assert wk.estimate_kernel(graph, wide, 32, sampler=matched, stitches=4).stitches == 4
    with pytest.warns(wk.InfiniteVarianceWarning, match="The symmetric pair"):
        wk.estimate_kernel(graph, wide, 32, sampler=matched)
    with pytest.warns(wk.InfiniteVarianceWarning, match="stitched from 2 factors, has infinite variance"):
        wk.estimate_kernel(
            graph, wk.RegularizedLaplacian(1, 2.0), 8, sampler=wk.IndependentWalks(0.5), stitches=2
        )


@pytest.mark.parametrize("ensembles", ["debiased", "shared", "independent"])
def test_bits_do_not_depend_on_threads(ensembles, monkeypatch):
    """Products of 150 rows, with 60 columns or more, are more than one thread is given alone."""
    graph = wk.Graph.from_scipy(graphs.random_matrix(150, 0.04, seed=1))
    V, results = np.random.default_rng(0).standard_normal((150, 60)), []
    for threads in (1, 2, 5):
        monkeypatch.setenv("WALKERNEL_NUM_THREADS", str(threads))
        K = stitched(graph, 2, ensembles=ensembles, engine=wk.engines.CPU(threads))
        results.append((K @ V, K.to_dense(), K.diagonal()))
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_rows_and_entries_in_blocks(monkeypatch):
    K = stitched(graphs.unweighted(), 2)
    dense, diagonal = K.to_dense(), K.diagonal()
    monkeypatch.setattr("walkernel.operators._base.ROWS_AT_ONCE", 70)
    assert np.allclose(K.to_dense(), dense, rtol=0, atol=1e-15)
    assert np.allclose(K.diagonal(), diagonal, rtol=0, atol=1e-15)


class TestErrors:
    """``K.estimate``: group g of every factor is left out at once."""

    @pytest.mark.parametrize("kind", ["unweighted", "directed"])
    def test_independent_walks_by_hand(self, kind):
        graph = graphs.KINDS[kind]()
        K = stitched(graph, 2, ensembles="independent")
        sides = [features(graph, 2, s, s % 2 and graph.directed, groups=16) for s in range(4)]
        without = []
        for g in range(16):
            left, right, left2, right2 = (np.delete(side, g, axis=0).mean(axis=0) for side in sides)
            P = left @ right.T @ left2 @ right2.T
            without.append(P if graph.directed else (P + P.T) / 2)
        expected = np.sqrt(15 * np.var(without, axis=0))
        every = np.indices((graph.n_nodes,) * 2)
        value, stderr = K.estimate(*every)
        assert np.allclose(value, K.to_dense())
        jackknife = K._jackknife_errors(*(part.ravel() for part in every))
        assert np.allclose(jackknife.reshape(K.shape), expected, rtol=1e-8)
        assert (stderr >= expected * (1 - 1e-8)).all()
        assert np.allclose(K.T.estimate(*every).stderr, stderr.T, rtol=1e-8)
        assert K.estimate(0, 1).n_groups == 16

    @pytest.mark.parametrize("ensembles", ["debiased", "shared"])
    @pytest.mark.parametrize("coupled", [False, True])
    def test_without_the_last_group_is_the_estimate_of_fewer_walks(self, ensembles, coupled):
        """32 walks begin with the same 16: leaving out the last group is a sample of its own."""
        graph = graphs.weighted()
        sampler = wk.CoupledWalks(wk.matched_law(graph, KERNEL, stitches=2)) if coupled else PAPER
        all_walks, fewer = (256, 240) if coupled else (16, 15)
        K = stitched(graph, 2, all_walks, ensembles=ensembles, sampler=sampler)
        *_, last = K.without_groups()
        expected = stitched(graph, 2, fewer, ensembles=ensembles, sampler=sampler)
        assert np.allclose(last.to_dense(), expected.to_dense(), rtol=1e-10, atol=1e-12)
        assert (last.stitches, last.ensembles) == (2, ensembles)

    def test_factors_have_errors_of_their_own(self):
        graph = graphs.unweighted()
        K = stitched(graph, 2)
        value, stderr = K.factors[1].estimate([0, 1], [1, 1])
        exact = wk.exact_kernel(graph, wk.Diffusion(KERNEL.sigma / np.sqrt(2)))[[0, 1], [1, 1]]
        assert (np.abs(value - exact) < 5 * stderr).all()

    def test_two_groups_are_needed(self):
        graph = graphs.karate()
        with pytest.raises(ValueError, match="estimate: n_walks must be enough for two groups of walks"):
            stitched(graph, 2, 1).estimate(0, 1)
        law = wk.CoupledWalks(wk.matched_law(graph, KERNEL, stitches=2))
        assert stitched(graph, 2, 32, sampler=law).estimate(0, 1).n_groups == 2


UNSIGNED = graphs.unweighted()
BAD = {
    "zero": ({"stitches": 0}, "stitches must be a whole number from 1 to 16, got 0"),
    "too many": ({"stitches": 17}, "stitches must be a whole number from 1 to 16, got 17"),
    "float": ({"stitches": 2.0}, "stitches must be a whole number from 1 to 16, got 2.0"),
    "text": ({"stitches": "2"}, "stitches must be a whole number from 1 to 16, got '2'"),
    "bool": ({"stitches": True}, "stitches must be a whole number from 1 to 16, got True"),
    "lazy": ({"stitches": 2, "pair": "lazy"}, r"stitches must be 1 with the lazy pair, got 2\. Only the sym"),
    "only lazy": (
        {"stitches": 2, "kernel": wk.InverseCosine()},
        r"stitches must be 1 with the lazy pair \(the symmetric pair has infinite variance: K\^\(1/4\) is",
    ),
    "no root": (
        {"stitches": 3, "kernel": wk.PowerSeries([0.0, 1.0])},
        r"stitches must be 1 with the lazy pair \(no symmetric pair: α₀ = 0 is not positive\), got 3",
    ),
    "nodes": (
        {"stitches": 2, "nodes": [1, 2]},
        r"nodes must be None with more than one stitch, got stitches=2\. A stitched kernel is a product over",
    ),
    "shared, directed": (
        {"stitches": 2, "graph": graphs.directed(), "ensembles": "shared"},
        "ensembles must be None or 'independent' for a directed graph, got 'shared'",
    ),
    "debiased, one walk": (
        {"stitches": 2, "n_walks": 1, "ensembles": "debiased"},
        "n_walks must be at least 2 for ensembles='debiased'",
    ),
    "budget": (
        {"stitches": 3, "n_walks": None, "budget": 30 * 9 * 2, "sampler": PAPER},
        "budget must be at least 1620 steps, one walk from each node",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    options, message = BAD[case]
    arguments = {"graph": UNSIGNED, "kernel": KERNEL, "n_walks": 8, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        wk.estimate_kernel(**arguments)


def test_bad_input_of_the_law():
    with pytest.raises(ValueError, match="matched_law: stitches must be a whole number from 1 to 16, got 0"):
        wk.matched_law(UNSIGNED, KERNEL, stitches=0)
    with pytest.raises(ValueError, match="symmetric"):
        wk.matched_law(UNSIGNED, wk.PowerSeries([0.0, 1.0]), stitches=2)


def sparse_graph(n):
    return wk.Graph.from_edges(np.random.default_rng(0).integers(0, n, (4 * n, 2)), n_nodes=n)


def test_error_bars_beyond_the_memory_are_refused():
    """401 walks make no equal groups but of one walk each, with nearly all nodes among their features."""
    K = stitched(sparse_graph(500), 2, n_walks=401, sampler=wk.IndependentWalks(0.2))
    with pytest.raises(ValueError, match=r"GiB of them\. Use stitches=1, or estimate_product"):
        K.estimate(0, 1)
    assert K.estimate_product(np.ones(500)).stderr.shape == (500,)


def test_too_many_entries_are_refused():
    K = stitched(sparse_graph(20_000), 2, n_walks=4)
    assert K.entries(0, [1, 2]).shape == (2,)
    with pytest.raises(ValueError, match=r"got 20000 rows of a graph of 20000 nodes\. Use stitches=1"):
        K.diagonal()


@pytest.mark.parametrize(
    ("kind", "ensembles"), [("weighted", None), ("signed", "independent"), ("directed", None)]
)
def test_heads_that_are_kept_once_change_nothing(kind, ensembles):
    """Against factors that are estimated one by one, each with its head added in."""
    graph = graphs.KINDS[kind]()
    K = stitched(graph, 3, sampler=None, ensembles=ensembles)
    heads = {id(side.head) for factor in K.factors for side in (factor.left, factor.right)}
    assert len(heads) == (2 if graph.directed else 1)
    sampler = K.factors[0].groups.left.sampler
    for i, factor in enumerate(K.factors):
        sides = [
            wk.sample_features(
                graph, Symmetric(KERNEL, 3), 32, sampler=sampler, seed=5, stream=2 * i + side,
                transpose=bool(side) and graph.directed,
            )
            for side in range(2)
        ]  # fmt: skip
        assert np.allclose(factor.left.to_scipy().toarray(), sides[0].toarray(), rtol=0, atol=1e-15)
        if K.ensembles == "independent":
            assert np.allclose(factor.right.to_scipy().toarray(), sides[1].toarray(), rtol=0, atol=1e-15)
    dense = K.to_dense()
    assert np.allclose(K @ np.eye(30), dense)
    assert np.allclose(K.entries(3, [4, 3, 9]), dense[3, [4, 3, 9]])
    assert K.factors[1].topk([2], 3).nodes.shape == (1, 3)
