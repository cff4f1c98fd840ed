"""What nodes have of their own, and nodes with the same neighbours that are taken for one."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from kriging import Kriging, twins_by_hand
from walkernel.datasets import grid
from walkernel.engines import Engine
from walkernel.tasks import _walk_cache
from walkernel.tasks._observations import first_twins

RNG = np.random.default_rng(5)


def with_twins():
    """A weighted graph of 30 nodes with copies 30 and 31 of node 4, 32 of node 9, and two lone nodes.

    Node 35 has the neighbours of node 4 and other weights.
    """
    A = np.zeros((36, 36))
    A[:30, :30] = graphs.weighted().to_scipy().toarray()
    for copy, node, factor in ((30, 4, 1), (31, 4, 1), (32, 9, 1), (35, 4, 2)):
        A[copy, :30] = A[:30, copy] = factor * A[node, :30]
    return wk.Graph.from_scipy(A)


GRAPH = with_twins()
KNOWN = np.concatenate([np.arange(0, 30, 2), [30, 31, 9, 32, 33, 8, 8, 35]])
VALUES = RNG.normal(size=KNOWN.size) + 3
ASKED = np.array([4, 30, 1, 32, 9, 33, 34, 35, 30])
ONE = RNG.normal(size=36)
CASES = {
    "nugget": {"nugget": 0.8},
    "twins": {"twins": True},
    "both": {"nugget": 0.8, "twins": True},
    "normalized": {"nugget": 0.8, "twins": True, "normalize": True, "covariates": ONE},
    "conjugate gradients": {"nugget": 0.8, "twins": True, "solver": "cg", "tol": 1e-12},
    "learned": {"twins": True, "learn": ("nugget", "lengthscale", "noise")},
    "learned beside f": {"twins": True, "normalize": True, "learn": ("modulation", "noise", "nugget")},
    "given beside f": {"nugget": 0.8, "learn": ("modulation", "noise")},
}


def fitted(X=KNOWN, y=VALUES, **options):
    options = {"n_walks": 32, "learn": (), "amplitude": 1.7, "noise": 0.3, "random_state": 4, **options}
    return wk.NodeGPRegressor(
        GRAPH, wk.Diffusion(1.5), method="walks", **{"normalize": False, **options}
    ).fit(X, y)


def test_twins_have_the_same_neighbours_and_weights():
    found = first_twins(GRAPH)
    assert np.array_equal(found, twins_by_hand(GRAPH))
    assert found[[4, 30, 31, 9, 32]].tolist() == [4, 4, 4, 9, 9]
    assert np.array_equal(found[[33, 34, 35]], [33, 34, 35])


def test_leaves_of_one_node_are_twins():
    star = wk.Graph.from_edges([(0, 1), (0, 2), (3, 0)])
    assert first_twins(star).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_full_matrices(name):
    model = fitted(**CASES[name])
    truth = Kriging(model, KNOWN, VALUES)
    mean, cov = truth.posterior(ASKED)
    assert np.allclose(model.predict(ASKED), mean, rtol=0, atol=1e-8)
    assert np.allclose(model.predict(ASKED, return_cov=True)[1], cov, rtol=0, atol=1e-8)
    assert np.allclose(model.predict(ASKED, return_std=True)[1] ** 2, cov.diagonal(), rtol=0, atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(truth.log_likelihood(), rel=1e-8)
    if CASES[name].get("learn"):
        assert model.log_marginal_likelihood_value_ == pytest.approx(truth.log_likelihood(), rel=1e-8)


def test_blocks_of_nodes_do_not_show(monkeypatch):
    model = fitted(**CASES["both"])
    mean, std = model.predict(ASKED, return_std=True)
    whole = model.sample_y(ASKED, 2)
    monkeypatch.setattr(_walk_cache, "BLOCK", 2)
    monkeypatch.setattr(Engine, "nodes_at_once", 2)
    again = model.predict(ASKED, return_std=True)
    assert np.allclose(again, (mean, std), rtol=1e-12)
    assert np.allclose(model.sample_y(ASKED, 2), whole, rtol=1e-12)


def test_twins_share_what_is_seen_of_one():
    model = fitted([4, 1], [5.0, 1.0], twins=True, nugget=1.0, mean="zero")
    mean, std = model.predict([4, 30, 31], return_std=True)
    assert np.ptp(mean) == np.ptp(std) == 0
    assert mean[0] > 4
    drawn = model.sample_y([4, 30], 3)
    assert np.array_equal(drawn[0], drawn[1])
    apart = fitted([4, 1], [5.0, 1.0], nugget=1.0, mean="zero")
    assert apart.predict([30])[0] < 4


def test_covariates_tell_twins_apart():
    model = fitted(covariates=ONE, **CASES["both"])
    mean = model.predict([4, 30])
    assert mean[1] - mean[0] == pytest.approx(model.mean_coef_[1] * (ONE[30] - ONE[4]), rel=1e-9)


def test_conditioning_keeps_nugget_and_twins():
    model = fitted(**CASES["learned"])
    nugget = model.nugget_
    model.condition([30], [7.0])
    assert model.nugget_ == nugget
    assert np.allclose(model.predict([4]), model.predict([30]), rtol=1e-12)
    assert np.allclose(model.predict([4]), 7.0)


def own_parts(nugget, noise):
    """Three observations at each node of a grid: a smooth function, what the node has, and noise."""
    rng = np.random.default_rng(7)
    graph = grid(20, 20).graph
    K = wk.exact_kernel(graph, wk.Diffusion(3.0))
    root = np.linalg.cholesky(K / K.diagonal().mean() + 1e-9 * np.eye(400))
    value = root @ rng.standard_normal(400) + nugget * rng.standard_normal(400)
    X = np.repeat(np.arange(400), 3)
    return graph, X, value[X] + noise * rng.standard_normal(X.size)


@pytest.mark.parametrize(("nugget", "noise"), [(0.5, 0.2), (0.5, 0.5)])
def test_nugget_and_noise_are_told_apart(nugget, noise):
    """800 degrees of freedom for the noise, some 300 for the nugget: four standard errors are .1 and .2."""
    graph, X, y = own_parts(nugget, noise)
    learn = ("lengthscale", "amplitude", "noise", "nugget")
    model = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), learn=learn, normalize=False, method="walks").fit(
        X, y
    )
    assert model.noise_ == pytest.approx(noise, rel=0.1)
    assert model.nugget_ == pytest.approx(nugget, rel=0.2)
    without = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), normalize=False, method="walks").fit(X, y)
    assert without.nugget_ == 0
    assert without.log_marginal_likelihood_value_ < model.log_marginal_likelihood_value_ - 10


def test_units_of_y_are_those_of_the_nugget():
    one = fitted(**CASES["learned"])
    other = fitted(y=1000 * VALUES, amplitude=1700.0, noise=300.0, **CASES["learned"])
    assert other.nugget_ == pytest.approx(1000 * one.nugget_, rel=1e-6)
    kept = fitted(y=1000 * VALUES, nugget=0.8, learn=("noise",))
    assert kept.nugget_ == 0.8
