"""Errors against closed forms: expected squared error, bias of shared walks, decay with the number of walks.

Level: |mean − closed form| below 4 standard errors over fixed seeds; every rule has a twin that fails.
"""

import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import mostly_deep
from oracles import (
    expected_squared_error,
    expected_squared_error_two_sided,
    shared_diagonal_bias,
    transition_matrix,
)

KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)
SAMPLER = wk.IndependentWalks(p_halt=0.5)
N_WALKS = 16
LENGTH = 40


def survival():
    return 0.5 ** np.arange(LENGTH)


def sampled_errors(graph, n_repeats, sampler=SAMPLER, first_seed=0, kernel=KERNEL):
    exact = wk.exact_kernel(graph, kernel)
    errors = [
        wk.estimate_kernel(
            graph, kernel, N_WALKS, sampler=sampler, seed=first_seed + i, ensembles="independent"
        ).to_dense()
        - exact
        for i in range(n_repeats)
    ]
    return (np.array(errors) ** 2).sum(axis=(1, 2)) / (exact**2).sum()


def distance(sample, expected):
    """Distance of the mean from a value in standard errors."""
    return abs(sample.mean() - expected) / (sample.std(ddof=1) / np.sqrt(sample.size))


def closed_form(graph, transition="weights"):
    M, A = graph.to_scipy("normalized").toarray(), graph.to_scipy().toarray()
    f = KERNEL.modulation(LENGTH)
    P = transition_matrix(A, transition)
    if not graph.directed:
        return expected_squared_error(M, P, f, survival(), N_WALKS)
    return expected_squared_error_two_sided(M, P, transition_matrix(A.T, transition), f, survival(), N_WALKS)


CASES = {
    "karate": (graphs.karate, "weights"),
    "tree": (graphs.binary_tree, "weights"),
    "weighted": (graphs.weighted, "weights"),
    "weighted, uniform steps": (graphs.weighted, "uniform"),
    "directed": (graphs.directed, "weights"),
    "signed": (graphs.signed, "weights"),
    "self-loops": (graphs.self_loops, "weights"),
}


@pytest.mark.parametrize("case", CASES)
def test_squared_error_has_its_expected_value(case):
    make, transition = CASES[case]
    sample = sampled_errors(make(), 500, wk.IndependentWalks(0.5, transition=transition))
    assert distance(sample, closed_form(make(), transition)) < 4


def test_published_reference_values():
    """The closed form itself, against an independent implementation (c = .3902, m = 16)."""
    assert closed_form(graphs.karate()) == pytest.approx(0.04599, abs=5e-5)
    assert closed_form(graphs.binary_tree()) == pytest.approx(0.03788, abs=5e-5)


def test_twin_uniform_steps_do_not_pass_for_weighted_ones():
    sample = sampled_errors(graphs.weighted(), 500, wk.IndependentWalks(0.5, transition="uniform"))
    assert distance(sample, closed_form(graphs.weighted(), "weights")) > 4


def test_twin_one_walk_less_is_seen():
    sample = sampled_errors(graphs.karate(), 500)
    assert distance(sample * N_WALKS / (N_WALKS - 1), closed_form(graphs.karate())) > 4


def diagonals(graph, ensembles, n_repeats=1500):
    return np.array([
        wk.estimate_kernel(graph, KERNEL, N_WALKS, sampler=SAMPLER, seed=i, ensembles=ensembles).diagonal()
        for i in range(n_repeats)
    ])  # fmt: skip


@pytest.mark.parametrize("kind", mostly_deep(["unweighted", "weighted", "self-loops"], ["weighted"]))
def test_shared_diagonal_has_exactly_its_bias(kind):
    graph = graphs.KINDS[kind]()
    exact = np.diag(wk.exact_kernel(graph, KERNEL))
    M, A = graph.to_scipy("normalized").toarray(), graph.to_scipy().toarray()
    bias = shared_diagonal_bias(M, transition_matrix(A), KERNEL.modulation(LENGTH), survival(), N_WALKS)
    shared, debiased, independent = (diagonals(graph, e) for e in ("shared", "debiased", "independent"))

    def largest(sample, value):
        return np.abs((sample.mean(0) - value) / (sample.std(0, ddof=1) / np.sqrt(len(sample)))).max()

    assert largest(shared, exact + bias) < 4
    assert largest(debiased, exact) < 4
    assert largest(independent, exact) < 4
    assert largest(shared, exact) > 4, "the twin: shared walks are biased, and the rule sees it"


def test_debiased_error_is_lower_at_equal_steps():
    """16 + 16 independent walks against 32 that serve both sides: the error falls by about √2."""
    graph = graphs.unweighted()
    exact = wk.exact_kernel(graph, KERNEL)

    def root_mean_square(ensembles, n_walks):
        estimates = (
            wk.estimate_kernel(graph, KERNEL, n_walks, seed=i, ensembles=ensembles) for i in range(300)
        )
        return np.sqrt(np.mean([np.sum((K.to_dense() - exact) ** 2) for K in estimates]))

    assert 1.3 < root_mean_square("independent", 16) / root_mean_square("debiased", 32) < 1.5


SLOPE_KERNELS = {
    "1-regularised": wk.RegularizedLaplacian(d=1, sigma=0.25),
    "2-regularised": wk.RegularizedLaplacian(d=2, sigma=0.25),
    "2-step": wk.PStepRandomWalk(p=2, alpha=20.0),
    "diffusion": wk.Diffusion(sigma=0.25),
    "inverse cosine": wk.InverseCosine(scale=0.0625),
}


def slope(graph, kernel, exact, **options):
    """Exponent of the mean error in the number of walks, 4 … 128."""
    counts = 2 ** np.arange(2, 8)
    errors = []
    for n in counts:
        walks = {"n_walks": int(n), "sampler": wk.IndependentWalks(0.1)}
        estimates = (wk.estimate_kernel(graph, kernel, seed=i, **walks, **options) for i in range(60))
        errors.append(np.mean([np.linalg.norm(K.to_dense() - exact) for K in estimates]))
    return np.polyfit(np.log(counts), np.log(errors), 1)[0]


SLOPES = [(name, ensembles) for name in SLOPE_KERNELS for ensembles in ("independent", "debiased")]


@pytest.mark.parametrize(("name", "ensembles"), mostly_deep(SLOPES, SLOPES[:2]))
def test_error_falls_with_the_root_of_the_walks(name, ensembles):
    graph, kernel = graphs.karate(), SLOPE_KERNELS[name]
    assert abs(slope(graph, kernel, wk.exact_kernel(graph, kernel), ensembles=ensembles) + 0.5) < 0.03


def test_twin_a_biased_estimate_does_not_fall_that_way():
    graph = graphs.karate()
    assert slope(graph, KERNEL.scaled(0.9), wk.exact_kernel(graph, KERNEL)) > -0.47
