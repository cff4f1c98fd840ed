"""The paper's bounds against brute force."""

import itertools
import math

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.theory import batch_length, generalization_bound, margin_loss, rademacher_bound


def complexity(M, bounds, nodes):
    """Empirical Rademacher complexity by brute force over all signs, the supremum over α taken exactly."""
    powers = [np.linalg.matrix_power(M, k)[np.ix_(nodes, nodes)] for k in range(len(bounds))]
    m = len(nodes)
    total = 0.0
    for signs in itertools.product((-1.0, 1.0), repeat=m):
        s = np.array(signs)
        total += math.sqrt(sum(b * abs(s @ P @ s) for b, P in zip(bounds, powers, strict=True)))
    return total / 2**m / m


@pytest.mark.parametrize("m", [4, 8, 12])
@pytest.mark.parametrize("kernel", [wk.Diffusion(1.0), wk.RegularizedLaplacian(2, 0.8)])
def test_rademacher_bound_holds(m, kernel):
    graph = graphs.karate()
    M = graph.to_scipy("normalized").toarray()
    bounds = kernel.coefficients(25)
    found = complexity(M, bounds, list(range(0, 2 * m, 2)))
    assert found <= rademacher_bound(bounds, 1.0, m)


def test_rademacher_bound_is_sharp_for_multiples_of_the_identity():
    bounds = wk.Diffusion(1.0).coefficients(20)
    assert complexity(0.7 * np.eye(10), bounds, list(range(10))) == pytest.approx(
        rademacher_bound(bounds, 0.7, 10)
    )


def test_batch_length_holds_for_all_walks_of_all_nodes():
    p, delta, n_walks, n_nodes = 0.3, 0.05, 16, 30
    b = batch_length(n_walks, p, delta, n_nodes=n_nodes)
    probability = (1 - (1 - p) ** b) ** (n_walks * n_nodes)
    assert probability >= 1 - delta > (1 - (1 - p) ** (b - 1)) ** (n_walks * n_nodes)
    graph = graphs.unweighted()
    sampler = wk.IndependentWalks(p)
    longest = [
        wk.sample_walks(graph, n_walks, sampler=sampler, seed=s).deposits.lengths.max() for s in range(400)
    ]
    exceeded = np.mean([length >= b for length in longest])
    assert abs(exceeded - (1 - probability)) < 4 * math.sqrt(probability * (1 - probability) / 400)


def test_batch_length_grows_with_the_logarithm():
    lengths = [batch_length(10**k, 0.1) for k in (2, 4, 6)]
    assert lengths[2] - lengths[1] == pytest.approx(lengths[1] - lengths[0], abs=1)


def test_margin_loss_and_generalisation():
    y, h = np.array([1, -1, 1, 1]), np.array([2.0, -0.25, -1.0, 0.25])
    assert margin_loss(y, h, 0.5) == pytest.approx((0 + 0.5 + 1 + 0.5) / 4)
    bound = generalization_bound(y, h, margin=0.5, complexity=0.1, delta=0.05)
    assert bound == pytest.approx(0.5 + 4 * 0.1 + 3 * math.sqrt(math.log(40) / 8))
