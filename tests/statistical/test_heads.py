"""Exact heads and what is chosen for the user: unbiased, and with error bars that hold.

Cells are estimated on many copies of a graph side by side, as in ``test_product_error_bars``: each copy is a
repeat.
"""

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import t as student

import graphs
import judges
import walkernel as wk
from depth import mostly_deep
from walkernel.operators import _groups


def dangling():
    """A directed graph with nodes that no edge leaves, or none enters."""
    A = graphs.random_matrix(30, 0.12, seed=8, symmetric=False) * np.random.default_rng(9).lognormal(
        0, 0.5, 30
    )
    A[[3, 7]], A[:, 9] = 0, 0
    return wk.Graph.from_scipy(A)


HEAT = wk.Diffusion(2.0)
LONG_HEAD = wk.CoupledWalks(wk.matched_law(dangling(), HEAT)[3:], head=3)
ODD = {
    "adjacency": (graphs.weighted, wk.Diffusion(0.4, matrix="adjacency"), {"n_walks": 32}),
    "combinatorial": (graphs.weighted, wk.Diffusion(1.0, matrix="combinatorial"), {"n_walks": 32}),
    "adjacency, directed": (graphs.directed, wk.Diffusion(0.3, matrix="adjacency"), {"n_walks": 32}),
    "signed": (graphs.signed, HEAT, {"n_walks": 32}),
    "dangling": (dangling, HEAT, {"n_walks": 32}),
    "isolated": (graphs.isolated, HEAT, {"n_walks": 32}),
    "loops": (graphs.self_loops, HEAT, {"n_walks": 32}),
    "lazy, directed": (graphs.directed, HEAT, {"n_walks": 32, "pair": "lazy"}),
    "lazy, dangling": (dangling, HEAT, {"n_walks": 32, "pair": "lazy"}),
    "inverse cosine": (graphs.directed, wk.InverseCosine(), {}),
    "no constant": (graphs.weighted, wk.PowerSeries([0.0, 1.0, -0.5, 0.2, 0.3, 0.1]), {"n_walks": 5}),
    "odd number": (graphs.weighted, HEAT, {"n_walks": 7}),
    "two walks": (graphs.weighted, HEAT, {"n_walks": 2}),
    "default": (graphs.weighted, wk.RegularizedLaplacian(2, 1.0), {}),
    "stitched": (graphs.weighted, HEAT, {"budget": 30 * 100}),
    "stitched, signed": (graphs.signed, HEAT, {"budget": 30 * 100, "ensembles": "independent"}),
    "stitched, dangling": (dangling, HEAT, {"budget": 30 * 100, "stitches": 2}),
    "stitched adjacency": (graphs.weighted, wk.Diffusion(0.6, matrix="adjacency"), {"budget": 30 * 100}),
    "given head": (dangling, HEAT, {"n_walks": 24, "sampler": LONG_HEAD}),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", mostly_deep(ODD, ["combinatorial", "signed", "lazy, directed", "two walks", "stitched"])
)
def test_unbiased_by_both_rules(case):
    build, kernel, options = ODD[case]
    graph, repeats = build(), 600 if build is dangling else 300  # few walks go to where few edges lead
    if options.get("sampler") is LONG_HEAD:  # what few walks add to three exact hops is skew
        repeats = 3000
    estimates = np.array(
        [wk.estimate_kernel(graph, kernel, seed=seed, **options).to_dense() for seed in range(repeats)]
    )
    holds, statistics = judges.verdict(
        estimates, wk.exact_kernel(graph, kernel), judges.within_two_hops(graph)
    )
    assert holds, statistics


def test_chosen_nodes_are_unbiased():
    graph, nodes = dangling(), [7, 3, 9, 0, 12, 29]
    estimates = np.array(
        [wk.estimate_kernel(graph, HEAT, 16, seed=s, nodes=nodes).to_dense() for s in range(400)]
    )
    exact = wk.exact_kernel(graph, HEAT)[np.ix_(nodes, nodes)]
    z, varies = judges.z_scores(estimates, exact)
    assert np.isfinite(z).all()
    assert np.abs(z[varies]).max() < 5


def copies(graph, number):
    return wk.Graph.from_scipy(scipy.sparse.kron(scipy.sparse.eye_array(number), graph.to_scipy(), "csr"))


COVERED = {
    "one factor": (graphs.karate, wk.Diffusion(2.0), {"n_walks": 256}),
    "default": (graphs.weighted, wk.Diffusion(1.5), {}),
    "adjacency": (graphs.weighted, wk.Diffusion(0.4, matrix="adjacency"), {"n_walks": 256}),
    "combinatorial": (graphs.weighted, wk.Diffusion(1.5, matrix="combinatorial"), {"n_walks": 256}),
    "signed": (graphs.signed, wk.Diffusion(2.0), {"n_walks": 256}),
    "random walk": (graphs.weighted, wk.PageRank(0.8), {"n_walks": 256}),
    "directed": (graphs.directed, wk.Diffusion(2.0), {"n_walks": 256}),
    "dangling": (dangling, wk.Diffusion(2.0), {"n_walks": 256}),
    "lazy": (graphs.directed, wk.InverseCosine(), {"n_walks": 256}),
    "stitched": (graphs.karate, wk.Diffusion(3.0), {"n_walks": 64, "stitches": 3}),
    "stitched, directed": (graphs.directed, wk.Diffusion(2.0), {"n_walks": 64, "stitches": 2}),
}
REPEATS = 100


def estimate(case):
    build, kernel, options = COVERED[case]
    graph = build()
    K = wk.estimate_kernel(copies(graph, REPEATS), kernel, seed=3, **options)
    assert K.groups.left.sampler.head > 0
    return K, graph, wk.exact_kernel(graph, kernel)


def share_inside(value, stderr, exact, n_groups):
    """Share of 95 % intervals that hold the exact value, over repeats and all that varies."""
    inside = np.abs(value - exact) <= student.isf(0.025, n_groups - 1) * stderr + 1e-13 * np.abs(exact).max()
    varies = value.std(axis=0) > 1e-9 * np.abs(exact).max()
    return inside[:, varies].mean()


def cover_products(case, sabotage=lambda K: None):
    K, graph, exact = estimate(case)
    sabotage(K)
    n = graph.n_nodes
    V = np.column_stack([np.random.default_rng(3).standard_normal(n), np.ones(n)])
    product = K.estimate_product(np.tile(V, (REPEATS, 1)))
    value, stderr = (array.reshape(REPEATS, n, 2) for array in product)
    return share_inside(value, stderr, exact @ V, product.n_groups)


@pytest.mark.parametrize("case", mostly_deep(COVERED, ["one factor", "directed", "stitched"]))
def test_products_have_error_bars_that_hold(case):
    """92 to 97 % of 95 % intervals."""
    assert 0.92 < cover_products(case) < 0.97


ONE_FACTOR = [case for case in COVERED if "stitched" not in case]


@pytest.mark.parametrize("case", mostly_deep(ONE_FACTOR, ["one factor"]))
def test_entries_have_error_bars_that_hold(case):
    """90 to 98.5 % as in ``test_error_bars``, among entries of a relative spread of at most a quarter."""
    K, graph, exact = estimate(case)
    n = graph.n_nodes
    i, j = (part.ravel()[::7] for part in np.indices((n, n)))
    first = n * np.arange(REPEATS)[:, None]
    entries = K.estimate(first + i, first + j)
    judged = entries.value.std(axis=0) <= 0.25 * np.abs(exact[i, j])
    assert judged.sum() > 10
    value, stderr = entries.value[:, judged], entries.stderr[:, judged]
    share = share_inside(value, stderr, exact[i, j][judged], entries.n_groups)
    assert 0.90 < share < 0.985
    assert share_inside(value, stderr * 2 / 3, exact[i, j][judged], entries.n_groups) < 0.9


@pytest.mark.deep
def test_entries_of_stitched_operators_too():
    build, kernel, options = COVERED["stitched"]
    graph = build()
    exact = wk.exact_kernel(graph, kernel)
    rows = np.arange(0, 34, 4)
    found = [
        wk.estimate_kernel(graph, kernel, seed=s, **options).estimate(rows, rows + 1) for s in range(100)
    ]
    value, stderr = (np.array([getattr(one, name) for one in found]) for name in ("value", "stderr"))
    assert 0.91 < share_inside(value, stderr, exact[rows, rows + 1], found[0].n_groups) < 0.98


def test_errors_of_one_side_alone_do_not_hold(monkeypatch):
    """Sabotage: without L̄ du_g."""
    monkeypatch.setattr(_groups, "_multiply_groups", lambda features, *groups, **_: np.zeros((1, 1)))
    for case in ("one factor", "directed", "stitched"):
        assert cover_products(case) < 0.92


@pytest.mark.deep
def test_errors_of_one_factor_alone_do_not_hold():
    """Sabotage: what the other factors deviate by is left out."""

    def sabotage(K):
        for factor in K.factors[1:]:
            own = factor.deviations
            factor.deviations = lambda V, own=own: (0.0 * own(V)[0], None)

    assert cover_products("stitched", sabotage) < 0.9


def test_heads_with_the_wrong_factor_are_noticed(monkeypatch):
    """Sabotage: walks leave the head in proportion to loads of M / scale without the front's total."""
    from walkernel.walks import _heads

    follow = _heads.follow_heads

    def sabotaged(*arguments):
        head, front = follow(*arguments)
        return head, front._replace(loads=front.loads * 1.05)

    monkeypatch.setattr("walkernel.walks._spec.follow_heads", sabotaged)
    graph = graphs.karate()
    sampler = wk.CoupledWalks(wk.matched_law(graph, HEAT)[1:], head=1)
    estimates = np.array(
        [wk.estimate_kernel(graph, HEAT, 64, sampler=sampler, seed=s).to_dense() for s in range(300)]
    )
    holds, _ = judges.verdict(estimates, wk.exact_kernel(graph, HEAT), judges.within_two_hops(graph))
    assert not holds
