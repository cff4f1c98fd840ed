"""The tasks' estimates against exact answers: bias, error bars, convergence; rules have twins that fail."""

import numpy as np
import pytest
from scipy.stats import norm

import graphs
import walkernel as wk
from data_sets import needs_data
from depth import mostly_deep
from walkernel.datasets import stochastic_block_model
from walkernel.tasks._ode_walks import WalkPlan

REPEATS = 300
RNG = np.random.default_rng(11)


def unbiased(estimates, exact):
    """|z| below the two-sided 1e-6 quantile, Bonferroni over entries, and mean z² in 0.5 … 1.6."""
    z = (estimates.mean(0) - exact) / (estimates.std(0, ddof=1) / np.sqrt(len(estimates)))
    return bool(np.abs(z).max() < norm.isf(1e-6 / (2 * z.size)) and 0.5 < (z**2).mean() < 1.6)


@pytest.mark.parametrize("kind", mostly_deep(["unweighted", "weighted", "directed"], ["weighted"]))
def test_the_smoother_is_unbiased_also_at_known_nodes(kind):
    graph, known = graphs.KINDS[kind](), np.arange(0, 30, 3)
    values = RNG.normal(size=known.size)
    exact = wk.exact_kernel(graph, wk.Diffusion(1.5))[:, known] @ values

    def smoothed(seed):
        model = wk.NodeSmoother(
            graph, wk.Diffusion(1.5), n_walks=16, random_state=seed, average=False, method="walks"
        )
        return model.fit(known, values).predict(np.arange(30))

    estimates = np.array([smoothed(seed) for seed in range(REPEATS)])
    assert unbiased(estimates, exact)
    shared = [wk.sample_walks(graph, 16, seed=seed).features(wk.Diffusion(1.5)) for seed in range(REPEATS)]
    twin = np.array([phi @ (phi[known].T @ values) for phi in shared])
    assert not unbiased(twin, exact)


def solve(graph, seed, **options):
    y = np.cos(np.arange(graph.n_nodes))
    return wk.solve_ode(graph, None, [0.5, 2.0], initial=y, seed=seed, n_walks=16, **options)


def unbiased_along(x, exact, direction):
    """|z| < 4 for the projection on a vector that a bias of the diagonal moves all nodes along."""
    error = (x - exact) @ direction
    z = error.mean(0) / (error.std(0, ddof=1) / np.sqrt(len(error)))
    return bool(np.abs(z).max() < 4)


EQUATIONS = [(kind, pair) for kind in ("unweighted", "directed") for pair in ("symmetric", "lazy")]


@pytest.mark.parametrize(("kind", "pair"), mostly_deep(EQUATIONS, [("directed", "symmetric")]))
def test_differential_equations_are_unbiased_with_true_error_bars(monkeypatch, kind, pair):
    """Bias by z; spread and 95 % intervals (Student's t, 15 degrees of freedom) against the stated errors."""
    graph = graphs.KINDS[kind]()
    exact, along = solve(graph, 0, method="polynomial").x, np.cos(np.arange(graph.n_nodes))
    solutions = [solve(graph, seed, pair=pair) for seed in range(REPEATS)]
    x = np.array([solution.x for solution in solutions])
    stderr = np.array([solution.stderr for solution in solutions])
    assert unbiased(x, exact)
    assert unbiased_along(x, exact, along)
    assert 0.9 < (((x - exact) ** 2).mean(0) / (stderr**2).mean(0)).mean() < 1.1
    assert 0.925 < (np.abs(x - exact) < 2.131 * stderr).mean() < 0.975
    assert not 0.925 < (np.abs(x - exact) < 2.131 * stderr / 1.4).mean() < 0.975
    if pair == "symmetric" and not graph.directed:
        features = WalkPlan.features
        monkeypatch.setattr(
            WalkPlan, "features", lambda self, ids, stream, *rest: features(self, ids, stream % 16, *rest)
        )
        twin = np.array([solve(graph, seed, pair=pair).x for seed in range(REPEATS // 3)])
        assert not unbiased_along(twin, exact, along)


@pytest.mark.parametrize(
    "name", ["karate", pytest.param("dolphins", marks=needs_data), pytest.param("football", marks=needs_data)]
)
def test_the_error_falls_with_the_root_of_the_walks(name):
    """Sec. 3.2 with quadrature: error(8 walks) / error(128 walks) is 4; Monte Carlo times stall it."""
    graph = wk.load_dataset(name).graph
    y = np.eye(graph.n_nodes)[0]
    exact = wk.solve_ode(graph, y, 1.0, method="polynomial").x

    def error(n_walks, **options):
        solutions = [
            wk.solve_ode(graph, y, 1.0, n_walks=n_walks, seed=s, sampler=wk.IndependentWalks(0.1), **options)
            for s in range(16)
        ]
        return np.mean([np.linalg.norm(solution.x - exact) for solution in solutions])

    assert 3 < error(8) / error(128) < 5
    assert error(32, quadrature="monte-carlo") / error(512, quadrature="monte-carlo") < 3


def neighbours(graph, nodes, seed):
    """Overlap with the exact ten most similar nodes, and the exact kernel's share of what was possible."""
    kernel = wk.Diffusion(2.0)
    exact = wk.polynomial_operator(graph, kernel)
    best, rows = exact.topk(nodes, 10), exact.rows(nodes)

    def judge(found):
        overlap = [len(set(a) & set(b)) / 10 for a, b in zip(found, best.nodes, strict=True)]
        return np.mean(overlap), np.take_along_axis(rows, found, axis=1).sum() / best.values.sum()

    found = wk.estimate_kernel(graph, kernel, 1024, seed=seed).topk(nodes, 10)
    return judge(found.nodes), judge(np.random.default_rng(seed).permuted(found.nodes, axis=0))


@pytest.mark.parametrize("name", ["blocks", pytest.param("cora", marks=needs_data)])
def test_nearest_nodes_are_those_of_the_exact_kernel(name):
    """Most similar nodes: 0.9 of the ten nearest are found, with 0.99 of their kernel."""
    if name == "cora":
        graph = wk.load_dataset("cora").graph.largest_component()
    else:
        graph = stochastic_block_model((700, 700), 0.006, 0.0005, seed=2).graph.largest_component()
    graph = wk.Graph.from_scipy(graph.to_scipy())  # ids instead of labels
    nodes = np.arange(0, graph.n_nodes, 10)
    (overlap, share), (overlap_twin, share_twin) = neighbours(graph, nodes, seed=1)
    assert overlap > 0.9
    assert share > 0.99
    assert overlap_twin < 0.2
    assert share_twin < 0.2
