"""The closed form of the expected error: against the oracle, and by its derivative."""

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from oracles import expected_squared_error, mean_features, second_moments, transition_matrix
from walkernel.torch import ExpectedError, FreeModulation, ModulationPair, NeuralModulation

KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)
LENGTH = 12
HALF = 0.5 ** np.arange(LENGTH)
DAMPED = KERNEL.modulation(LENGTH) * 0.8 ** np.arange(LENGTH)
SIGNED = np.random.default_rng(0).standard_normal(LENGTH) * 0.35 ** np.arange(LENGTH)
CASES = {
    **{kind: (kind, "weights", "normalized") for kind in graphs.KINDS},
    "weighted, uniform steps": ("weighted", "uniform", "normalized"),
    "directed, uniform steps": ("directed", "uniform", "normalized"),
    "weighted, combinatorial": ("weighted", "weights", "combinatorial"),
    "adjacency": ("weighted", "weights", "adjacency"),
}


def oracle(graph, kernel, first, second, n_walks, transition, survival=HALF):
    """E‖K̂ − K‖² / ‖K‖² with K the kernel itself: node by node, ⟨M_i, M_j⟩ − 2 K_ij (μ₁μ₂)_ij + K_ij²."""
    M, A = graph.to_scipy(kernel.matrix).toarray(), graph.to_scipy().toarray()
    law = M if kernel.matrix == "combinatorial" else A
    K, moments, means = wk.exact_kernel(graph, kernel), [], []
    for matrix, weights, f in ((M, law, first), (M.T, law.T, second)):
        S = second_moments(matrix, transition_matrix(weights, transition), f, survival)
        mean = mean_features(matrix, f)
        moments.append(S / n_walks + (1 - 1 / n_walks) * np.einsum("iu,iv->iuv", mean, mean))
        means.append(mean)
    n = len(K)
    second_moment = moments[0].reshape(n, -1) @ moments[1].reshape(n, -1).T
    return (second_moment - 2 * K * (means[0] @ means[1].T) + K**2).sum() / (K**2).sum()


def error_of(case, n_walks, length=LENGTH):
    kind, transition, matrix = CASES[case]
    kernel = wk.PowerSeries([1.0, 0.1, 0.01], matrix=matrix) if matrix == "adjacency" else KERNEL
    kernel = wk.Diffusion(0.7, matrix=matrix) if matrix == "combinatorial" else kernel
    graph = graphs.KINDS[kind]()
    sampler = wk.IndependentWalks(0.5, transition=transition)
    return graph, kernel, transition, ExpectedError(graph, kernel, n_walks, sampler, length)


@pytest.mark.parametrize("f", [DAMPED, SIGNED], ids=["damped", "signed"])
@pytest.mark.parametrize("case", CASES)
def test_closed_form_is_the_sum_over_pairs_of_nodes(case, f):
    graph, kernel, transition, error = error_of(case, 7)
    expected = oracle(graph, kernel, f, f, 7, transition)
    assert error(FreeModulation(f)).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("case", ["unweighted", "directed", "directed, uniform steps", "signed"])
@pytest.mark.parametrize("n_walks", [1, 16])
def test_asymmetric_pairs(case, n_walks):
    graph, kernel, transition, error = error_of(case, n_walks)
    pair = ModulationPair(FreeModulation(DAMPED), FreeModulation(SIGNED))
    expected = oracle(graph, kernel, DAMPED, SIGNED, n_walks, transition)
    assert error(pair).item() == pytest.approx(expected, rel=1e-9)
    turned = ModulationPair(pair.second, pair.first)
    assert error(turned).item() == pytest.approx(oracle(graph, kernel, SIGNED, DAMPED, n_walks, transition))
    if case == "directed, uniform steps":
        assert error(turned).item() != pytest.approx(error(pair).item(), rel=1e-6)


def test_the_unbiased_error_is_the_variance():
    graph, f = graphs.karate(), KERNEL.modulation(40)
    M, A = graph.to_scipy("normalized").toarray(), graph.to_scipy().toarray()
    expected = expected_squared_error(M, transition_matrix(A), f, 0.5 ** np.arange(40), 16)
    error = ExpectedError(graph, KERNEL, 16, wk.IndependentWalks(0.5), 40)
    assert error(FreeModulation(f)).item() == pytest.approx(expected, rel=1e-8)
    assert error(FreeModulation(f)).item() == pytest.approx(0.04599, abs=5e-6)


def test_other_length_laws():
    graph, sampler = graphs.weighted(), wk.IndependentWalks(0.2)
    error = ExpectedError(graph, KERNEL, 5, sampler, LENGTH)
    expected = oracle(graph, KERNEL, DAMPED, DAMPED, 5, "weights", 0.8 ** np.arange(LENGTH))
    assert error(FreeModulation(DAMPED)).item() == pytest.approx(expected, rel=1e-9)


def test_shorter_sequences_and_single_terms():
    graph = graphs.unweighted()
    error = ExpectedError(graph, KERNEL, 3, wk.IndependentWalks(0.5), 1)
    K, f0 = wk.exact_kernel(graph, KERNEL), 0.7
    exact = ((f0**2 * np.eye(30) - K) ** 2).sum() / (K**2).sum()
    assert error(FreeModulation([f0])).item() == pytest.approx(exact, rel=1e-12)
    longer = ExpectedError(graph, KERNEL, 3, wk.IndependentWalks(0.5), 9)
    assert longer(FreeModulation([f0])).item() == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("case", ["self-loops", "directed", "isolated"])
def test_derivatives(case):
    *_, error = error_of(case, 4, 6)
    first, second = (torch.tensor(f[:6], requires_grad=True) for f in (DAMPED, SIGNED))
    assert torch.autograd.gradcheck(error.of_sides, (first, second))
    assert torch.autograd.gradcheck(lambda f: error.of_sides(f, f), (first,))


def test_derivative_by_the_parameters_of_a_network():
    *_, error = error_of("weighted", 16)
    net = NeuralModulation(decay=0.39, amplitude=0.6, init="random", seed=1)
    error(net).backward()
    for parameter in net.parameters():
        with torch.no_grad():
            parameter += 1e-6
            above = error(net).item()
            parameter -= 2e-6
            below = error(net).item()
            parameter += 1e-6
        assert parameter.grad.item() == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-8)


def test_devices_and_dtypes():
    graph = graphs.unweighted()
    single = ExpectedError(graph, KERNEL, 4, wk.IndependentWalks(0.5), 9, dtype=torch.float32)
    net = NeuralModulation(decay=0.39, amplitude=0.6, dtype=torch.float32)
    value = single(net)
    assert value.dtype == torch.float32
    double = ExpectedError(graph, KERNEL, 4, wk.IndependentWalks(0.5), 9)
    assert value.item() == pytest.approx(double(NeuralModulation(decay=0.39, amplitude=0.6)).item(), rel=1e-4)


def refused(*changes, **options):
    arguments = [graphs.unweighted(), KERNEL, 4, wk.IndependentWalks(0.5), 9]
    for place, value in changes:
        arguments[place] = value
    return lambda: ExpectedError(*arguments, **options)


BAD = {
    "graph": (refused((0, np.eye(3))), TypeError, "graph must be a Graph"),
    "kernel": (refused((1, 3)), TypeError, "kernel must be a Kernel, got 3"),
    "no walks": (refused((2, 0)), ValueError, "n_walks must be a whole number of at least 1, got 0"),
    "coupled walks": (
        refused((3, wk.CoupledWalks((1.0, 0.5)))), TypeError,
        r"sampler must be an IndependentWalks.*learn from samples with walks='fresh'",
    ),
    "no lengths": (refused((4, 0)), ValueError, "n_lengths must be a whole number of at least 1, got 0"),
    "lengths that are not walked": (
        refused((3, wk.IndependentWalks(0.99)), (4, 50)), ValueError,
        r"n_lengths must be at most \d+, the longest walk, got 50",
    ),
    "a large graph": (
        refused((0, wk.Graph.from_edges([(0, 1)], n_nodes=40_000))), ValueError, "GiB.*walks='fresh'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name):
    call, error, message = BAD[name]
    with pytest.raises(error, match=f"ExpectedError: .*{message}"):
        call()


def test_only_modulations_have_errors():
    *_, error = error_of("unweighted", 4)
    with pytest.raises(
        TypeError, match=r"ExpectedError: modulation must be a modulation, got .* Use NeuralModulation"
    ):
        error([1.0, 0.5])
