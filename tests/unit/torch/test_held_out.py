"""Errors on held-out walks, and the bounds of Theorem 2.3, by hand."""

import math

import numpy as np
import pytest

import graphs
import walkernel as wk
from pairs import keyed_walks
from walkernel.torch import FreeModulation, ModulationPair, NeuralModulation, held_out_errors, learned_bounds

KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)
HALF = wk.IndependentWalks(0.5)


def ring(n=8):
    return wk.Graph.from_edges([(i, (i + 1) % n) for i in range(n)] + [(0, n // 2)])


def test_held_out_errors_by_hand():
    graph, f = graphs.karate(), KERNEL.modulation(65) * 0.9 ** np.arange(65)
    options = {"n_walks": 8, "sampler": HALF, "seed": 5, "n_samples": 12}
    for ensembles in ("independent", "shared"):
        found = held_out_errors(graph, KERNEL, FreeModulation(f), ensembles=ensembles, **options)
        K, errors = wk.exact_kernel(graph, KERNEL), []
        for sample in range(12):
            left, right = keyed_walks(graph, 8, 1, 5, sample, ensembles=ensembles)
            phis = [
                (left.features(g).toarray(), right.features(g).toarray()) for g in (f, KERNEL.modulation(65))
            ]
            errors.append([((a @ b.T - K) ** 2).sum() / (K**2).sum() for a, b in phis])
        learned, unbiased = np.transpose(errors)
        assert found.learned == pytest.approx(learned.mean(), rel=1e-9)
        assert found.unbiased == pytest.approx(unbiased.mean(), rel=1e-9)
        assert found.learned_stderr == pytest.approx(learned.std(ddof=1) / math.sqrt(12), rel=1e-7)
        assert found.unbiased_stderr == pytest.approx(unbiased.std(ddof=1) / math.sqrt(12), rel=1e-7)
        assert found.ratio == pytest.approx(learned.mean() / unbiased.mean(), rel=1e-9)
        gain = unbiased - learned
        assert found.z == pytest.approx(gain.mean() / (gain.std(ddof=1) / math.sqrt(12)), rel=1e-6)
        linear = (learned - found.ratio * unbiased) / unbiased.mean()
        assert found.ratio_stderr == pytest.approx(linear.std(ddof=1) / math.sqrt(12), rel=1e-6)
        assert (found.n_samples, found.ensembles) == (12, ensembles)


def test_held_out_errors_of_the_unbiased_f_itself():
    options = {"n_walks": 8, "sampler": HALF, "n_samples": 4}
    found = held_out_errors(ring(), KERNEL, FreeModulation(KERNEL.modulation(65)), **options)
    assert (found.ratio, found.ratio_stderr, found.z) == (1.0, 0.0, 0.0)


HELD_OUT_BAD = {
    "graph": ({"graph": 3}, TypeError, "graph must be a Graph"),
    "kernel": ({"kernel": [1.0]}, TypeError, "kernel must be a Kernel"),
    "modulation": ({"modulation": [1.0]}, TypeError, "modulation must be"),
    "n_walks": ({"n_walks": 0}, ValueError, "n_walks must be .* got 0"),
    "sampler": ({"sampler": None}, TypeError, "sampler must be a Sampler"),
    "seed": ({"seed": -1}, ValueError, "seed must be .* got -1"),
    "n_samples": ({"n_samples": 1}, ValueError, "n_samples must be .* at least 2, got 1"),
    "ensembles": ({"ensembles": "both"}, ValueError, "ensembles must be one of"),
    "shared, directed": (
        {"ensembles": "shared", "graph": graphs.directed()}, ValueError, "'independent' for a directed graph"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD_OUT_BAD)
def test_bad_arguments_of_held_out_errors(name):
    changes, error, message = HELD_OUT_BAD[name]
    options = {
        "graph": ring(),
        "kernel": KERNEL,
        "modulation": NeuralModulation(decay=0.39),
        "n_walks": 4,
        "sampler": HALF,
    }
    with pytest.raises(error, match=f"^held_out_errors: .*{message}"):
        held_out_errors(**{**options, "n_samples": 2, **changes})


def test_bounds_are_theorem_2_3():
    graph = graphs.karate()
    pair = ModulationPair(FreeModulation([1.0, -0.5]), FreeModulation([0.5, 0.2, 0.1]))
    alpha = np.abs(np.convolve([1.0, -0.5], [0.5, 0.2, 0.1]))
    for matrix in ("normalized", "adjacency"):
        rho = np.abs(np.linalg.eigvalsh(graph.to_scipy(matrix).toarray())).max()
        found = learned_bounds(pair, graph, 20, matrix=matrix, margin=0.5, delta=0.1)
        complexity = wk.theory.rademacher_bound(alpha, rho, 20)
        assert found.spectral_radius == pytest.approx(rho, rel=2e-4)
        assert found.complexity == pytest.approx(complexity, rel=5e-4)
        assert found.complexity == pytest.approx(
            math.sqrt((alpha * rho ** np.arange(4)).sum() / 20), rel=5e-4
        )
        right = {"margin": 0.5, "complexity": complexity, "delta": 0.1}
        whole = wk.theory.generalization_bound(np.ones(20), np.full(20, 9.0), **right)
        assert found.gap == pytest.approx(whole, rel=5e-4), "with no margin loss"
        assert (found.n_samples, found.margin, found.delta) == (20, 0.5, 0.1)
    short = learned_bounds(FreeModulation([1.0, 1.0]), graph, 20, length=1)
    assert short.complexity == pytest.approx(math.sqrt(1 / 20))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"modulation": KERNEL}, TypeError, "modulation must be"),
        ({"graph": 1}, TypeError, "graph must be a Graph"),
        ({"n_samples": 0}, ValueError, "n_samples must be .* got 0"),
        ({"margin": 0}, ValueError, "margin must be .* got 0"),
        ({"delta": 1.0}, ValueError, r"delta must be .* got 1\.0"),
        ({"length": 0}, ValueError, "length must be .* got 0"),
    ],
)
def test_bad_arguments_of_bounds(changes, error, message):
    options = {"modulation": NeuralModulation(decay=0.39), "graph": ring(), "n_samples": 5, **changes}
    with pytest.raises(error, match=f"^learned_bounds: {message}"):
        learned_bounds(**options)


def test_held_out_errors_without_chance():
    """On a graph without edges all samples are alike: an f of another f(0) is worse beyond doubt."""
    empty = wk.Graph.from_edges(np.zeros((0, 2), dtype=int), n_nodes=3)
    wrong = FreeModulation([2 * KERNEL.modulation(1)[0]])
    errors = held_out_errors(empty, KERNEL, wrong, n_walks=2, sampler=HALF, n_samples=3)
    assert errors.learned == pytest.approx(9)
    assert errors.z < -1e6
