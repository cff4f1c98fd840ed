"""Gaussian processes on operators: by hand from dense matrices, and the same as on features."""

import numpy as np
import pytest

import walkernel as wk

RNG = np.random.default_rng(5)
GRAPH = wk.Graph.from_edges(RNG.integers(0, 60, (200, 2)), n_nodes=60)
KERNEL = wk.Diffusion(1.5)
X = np.array([3, 10, 11, 40, 3, 59, 22])
Y = np.array([1.0, 0.2, -0.5, 2.0, 1.3, -1.0, 0.4])
ASKED = np.array([0, 3, 58, 40])


def by_hand(K, noise, amplitude):
    """Mean and standard deviation with β in the covariance, as a vague prior."""
    huge = 1e7
    C = amplitude**2 * K
    S = C[np.ix_(X, X)] + huge + noise**2 * np.eye(X.size)
    shared = C[np.ix_(ASKED, X)] + huge
    mean = shared @ np.linalg.solve(S, Y)
    variance = np.diag(C)[ASKED] + huge - np.einsum("ij,ji->i", shared, np.linalg.solve(S, shared.T))
    return mean, np.sqrt(variance)


def test_mean_and_std_by_hand():
    mean, std, n_iter = wk.gp_posterior(
        wk.polynomial_operator(GRAPH, KERNEL), X, Y, ASKED, noise=0.3, amplitude=1.7, tol=1e-12
    )
    expected = by_hand(wk.exact_kernel(GRAPH, KERNEL), 0.3, 1.7)
    assert np.allclose(mean, expected[0], rtol=0, atol=1e-6)
    assert np.allclose(std, expected[1], rtol=0, atol=1e-5)
    assert n_iter > 0


def test_it_is_that_of_the_regressor_for_the_same_walks():
    K = wk.estimate_kernel(GRAPH, KERNEL, 64, sampler=wk.IndependentWalks(), ensembles="shared")
    own = wk.NodeGPRegressor(
        GRAPH,
        KERNEL,
        n_walks=64,
        sampler=wk.IndependentWalks(),
        learn=(),
        noise=0.3,
        amplitude=1.7,
        normalize=False,
        method="walks",
    ).fit(X, Y)
    mean, std = own.predict(ASKED, return_std=True)
    found = wk.gp_posterior(K, X, Y, ASKED, noise=0.3, amplitude=1.7, tol=1e-12)
    assert np.allclose(found.mean, mean, rtol=0, atol=1e-9)
    assert np.allclose(found.std, std, rtol=0, atol=1e-9)


def test_blocks_of_columns_change_nothing(monkeypatch):
    K = wk.polynomial_operator(GRAPH, KERNEL)
    whole = wk.gp_posterior(K, X, Y, ASKED, noise=0.3)
    monkeypatch.setattr("walkernel.tasks._solvers.MAX_BLOCK_ENTRIES", 1)
    assert np.allclose(wk.gp_posterior(K, X, Y, ASKED, noise=0.3).std, whole.std, rtol=1e-7)


def test_labels_and_some_nodes():
    names = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    K = wk.estimate_kernel(names, KERNEL, 256, nodes=["d", "a", "b"], ensembles="shared")
    mean = wk.gp_posterior(K, ["a", "d"], [1.0, -1.0], ["b"], noise=0.1).mean
    assert 0 < mean[0] < 1
    with pytest.raises(ValueError, match="among the operator's own nodes"):
        wk.gp_posterior(K, ["c"], [1.0], ["b"], noise=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"K": wk.Diffusion()}, "KernelOperator"),
        ({"K": wk.estimate_kernel(GRAPH, KERNEL, 16)}, "ensembles='shared'"),
        ({"y": Y[:3]}, "one target for each node"),
        ({"noise": 0.0}, "noise"),
        ({"amplitude": -1.0}, "amplitude"),
        ({"tol": 1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_input_is_refused(options, message):
    given = {"K": wk.polynomial_operator(GRAPH, KERNEL), "y": Y, "noise": 0.1} | options
    with pytest.raises((TypeError, ValueError), match=message):
        wk.gp_posterior(given.pop("K"), X, given.pop("y"), ASKED, **given)


def test_two_iterations_are_not_enough():
    K = wk.polynomial_operator(GRAPH, KERNEL)
    with pytest.raises(RuntimeError, match="max_iter=2"):
        wk.gp_posterior(K, X, Y, ASKED, noise=0.01, max_iter=2)
