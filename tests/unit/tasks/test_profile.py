"""Amplitude and noise from one eigendecomposition: what L-BFGS finds on the same likelihood."""

import numpy as np
import pytest

import walkernel as wk
from walkernel.tasks import _learning
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._nodes import node_ids
from walkernel.tasks._observations import KnownNodes

LEARN = ("lengthscale", "amplitude", "noise")
GRAPH = wk.datasets.grid(8, 8).graph
KNOWN = np.arange(0, 64, 2)


def observations(n_outputs, seed=0, nodes=KNOWN):
    rng = np.random.default_rng(seed)
    smooth = np.sin(nodes / 9)[:, None] + 0.2 * rng.standard_normal((nodes.size, n_outputs))
    columns = np.column_stack([np.ones(64), np.arange(64) % 8 / 8])
    known = KnownNodes(GRAPH, columns, np.arange(64))
    return [one.scaled(one.spread) for one in known.observations(nodes, smooth, None)]


def covariance(nodes=KNOWN):
    return wk.exact_kernel(GRAPH, wk.Diffusion(2.0))[np.ix_(nodes, nodes)]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_finds_what_l_bfgs_finds(monkeypatch, n_outputs):
    monkeypatch.setattr("walkernel.tasks._profile.AMPLITUDE_SPREAD", np.inf)
    trials = _learning.Trials(observations(n_outputs), LEARN)
    hyper = Hyperparameters(wk.Diffusion(2.0), 1.0, 0.1)
    found = trials.best(hyper, covariance())
    monkeypatch.setattr(_learning, "has_profile", lambda *_: False)
    expected = trials.best(hyper, covariance())
    assert found.value == pytest.approx(expected.value, abs=1e-4)
    assert found.hyper.amplitude == pytest.approx(expected.hyper.amplitude, rel=1e-2)
    assert found.hyper.noise == pytest.approx(expected.hyper.noise, rel=1e-2)


@pytest.mark.parametrize("changed", ["nugget", "twice", "known noise", "noise alone"])
def test_other_cases_are_left_to_l_bfgs(monkeypatch, changed):
    monkeypatch.setattr(_learning, "profiled", None)
    data, learn = observations(1), LEARN
    hyper = Hyperparameters(wk.Diffusion(2.0), 1.0, 0.1, nugget=0.1 * (changed == "nugget"))
    K = covariance()
    if changed == "twice":
        data = observations(1, nodes=np.append(KNOWN, KNOWN[:5]))
    elif changed == "known noise":
        data = [one._replace(variances=one.variances + 0.01) for one in data]
    elif changed == "noise alone":
        learn = ("noise",)
    assert np.isfinite(_learning.Trials(data, learn).best(hyper, K).value)


def test_a_constant_has_an_amplitude_within_bounds():
    model = wk.NodeGPRegressor(GRAPH, wk.Diffusion(2.0), method="walks", n_walks=16)
    model.fit(node_ids(GRAPH, KNOWN), np.zeros(KNOWN.size))
    assert np.isfinite(model.amplitude_)
    assert model.noise_ > 0
