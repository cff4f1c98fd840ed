"""Are Gaussian processes as sure as they may be? Each rule has a twin that must fail.

* Draws of the posterior have its mean and covariance: whitened, n_draws · ‖mean‖² is chi-square with one
  degree of freedom for each node, and n_draws/2 · ‖S − I‖², nearly, with one for each pair. Level 1e-4.
* 95 % intervals of new observations, with hyper-parameters that were learned, hold 92 to 98 % of them.
* Probabilities of classes are off by less than 0.05 on average (expected calibration error, ten bins).
"""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chi2

import graphs
import walkernel as wk
from walkernel.datasets import erdos_renyi, grid
from walkernel.tasks._gp_classifier import sharpened_softmax
from walkernel.tasks._posterior import Posterior

LEVEL = 1e-4
N_DRAWS = 4000
RNG = np.random.default_rng(0)
KNOWN = np.concatenate([np.arange(0, 30, 3), [0, 0, 6]])
ASKED = np.array([0, 1, 2, 3, 10, 25, 29])
VALUES = RNG.normal(size=KNOWN.size) + 3


def is_drawn_from(draws, mean, cov):
    """Chi-square tests of mean and covariance of draws (n, n_draws), each at LEVEL / 2."""
    white = np.linalg.solve(np.linalg.cholesky(cov), draws - mean[:, None])
    n, n_draws = white.shape
    moments = white @ white.T / n_draws - np.eye(n)
    of_mean = n_draws * (white.mean(axis=1) ** 2).sum()
    of_cov = n_draws / 2 * (moments**2).sum()
    return bool(of_mean < chi2.isf(LEVEL / 2, n) and of_cov < chi2.isf(LEVEL / 2, n * (n + 1) / 2))


CASES = {
    "constant": {},
    "zero": {"mean": "zero"},
    "covariates": {"covariates": RNG.normal(size=(30, 2))},
    "learned": {"learn": None},
    "gradients": {"solver": "cg"},
    "normalized": {"normalize": True},
    "nugget": {"nugget": 0.8, "twins": True},
}


def fitted(**options):
    options = {"n_walks": 32, "learn": (), "noise": 0.5, "amplitude": 1.5, **options}
    model = wk.NodeGPRegressor(
        graphs.weighted(), wk.Diffusion(2.0), method="walks", **{"normalize": False, **options}
    )
    return model.fit(KNOWN, VALUES, noise_std=np.arange(KNOWN.size) % 3 / 2)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_mean_and_covariance_of_the_posterior(name):
    model = fitted(**CASES[name])
    for noisy in (False, True):
        mean, cov = model.predict(ASKED, return_cov=True, include_noise=noisy)
        draws = model.sample_y(ASKED, N_DRAWS, 1, include_noise=noisy)
        assert draws.shape == (ASKED.size, N_DRAWS)
        assert is_drawn_from(draws, mean, cov)
        assert not is_drawn_from(draws, mean + 0.1 * np.sqrt(cov.diagonal()), cov)
        assert not is_drawn_from(draws, mean, 1.1 * cov)
    assert not is_drawn_from(model.sample_y(ASKED, N_DRAWS, 1), mean, cov)  # of which the noise is part


class Silent:
    """A generator without its second array: the noise of the observations in a draw."""

    def __init__(self, rng):
        self.rng, self.calls = rng, 0

    def standard_normal(self, shape):
        self.calls += 1
        return self.rng.standard_normal(shape) * (self.calls != 2)


def test_draws_without_the_noise_of_the_observations_are_found_out(monkeypatch):
    draw, model = Posterior.draw, fitted()
    mean, cov = model.predict(ASKED, return_cov=True)
    monkeypatch.setattr(Posterior, "draw", lambda self, n_samples, rng: draw(self, n_samples, Silent(rng)))
    assert not is_drawn_from(model.sample_y(ASKED, N_DRAWS, 1), mean, cov)


def test_a_draw_is_one_function_of_all_nodes():
    model = fitted()
    whole = model.sample_y(n_samples=3, random_state=5)
    assert whole.shape == (30, 3)
    assert np.allclose(model.sample_y(ASKED, 3, 5), whole[ASKED], rtol=1e-12)
    assert np.allclose(model.sample_y([7, 7, 0], 3, 5), whole[[7, 7, 0]], rtol=1e-12)
    assert np.array_equal(model.sample_y(n_samples=3, random_state=5), whole)
    assert not np.allclose(model.sample_y(n_samples=3, random_state=6), whole)
    assert np.array_equal(model.sample_y([1]), model.sample_y([1], random_state=0))
    noisy = model.sample_y([7, 7], 4, 5, include_noise=True)
    assert not np.allclose(noisy[0], noisy[1])


# calibration --------------------------------------------------------------------------------------------

GRAPHS = {
    "grid": (grid(20, 20).graph, wk.Diffusion(3.0), 128),
    "random": (erdos_renyi(450, 0.015, seed=3).graph, wk.Diffusion(2.0), 256),
}


def gaussians(graph, kernel, shape, rng):
    """Draws with the exact kernel, of variance 1 on average."""
    values, vectors = np.linalg.eigh(wk.exact_kernel(graph, kernel))
    root = vectors * np.sqrt(np.maximum(values, 0) * len(values) / values.sum())
    return root @ rng.normal(size=(len(values), *shape))


@pytest.mark.deep
@pytest.mark.parametrize("name", GRAPHS)
def test_intervals_hold_what_they_promise(name):
    """Over eight draws of a function of variance 4 and noise of variance 1 at 200 nodes."""
    graph, kernel, n_walks = GRAPHS[name]
    inside = {True: [], False: []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = 7 + 2 * gaussians(graph, kernel, (), rng) + rng.normal(size=graph.n_nodes)
        known, rest = np.split(rng.permutation(graph.n_nodes), [200])
        model = wk.NodeGPRegressor(
            graph, kernel, n_walks=n_walks, random_state=seed, normalize=False, method="walks"
        ).fit(known, y[known])
        for noisy, found in inside.items():
            mean, std = model.predict(rest, return_std=True, include_noise=noisy)
            found.append(np.abs(y[rest] - mean) < 1.96 * std)
    assert 0.92 < np.mean(inside[True]) < 0.98
    assert not 0.92 < np.mean(inside[False]) < 0.98


def calibration_error(probabilities, y):
    """Mean distance of confidence and accuracy over ten bins of the confidence."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((10 * confidence).astype(int), 9)
    return np.abs(np.bincount(bins, confidence - right)).sum() / y.size


@pytest.mark.deep
def test_probabilities_are_as_often_right_as_they_say():
    """Over six draws of three classes; a twin is too modest, one too bold and blind to the variance."""
    graph, kernel = grid(20, 20).graph, wk.Diffusion(4.0)
    found, labels = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = softmax(5 * gaussians(graph, kernel, (3,), rng), axis=1)
        y = (rng.random((graph.n_nodes, 1)) > truth.cumsum(axis=1)).sum(axis=1)
        known, rest = np.split(rng.permutation(graph.n_nodes), [200])
        model = wk.NodeGPClassifier(
            graph, kernel, n_walks=128, random_state=seed, normalize=False, method="walks"
        ).fit(known, y[known])
        mean, variance = model.latent(rest)
        answers = [(model.variance_share_ * variance, model.sharpness_), (variance, 0.1), (0 * variance, 5.0)]
        found.append([sharpened_softmax(mean, spread, factor) for spread, factor in answers])
        labels.append(y[rest])
        assert np.array_equal(found[-1][0], model.predict_proba(rest))
    errors = [calibration_error(np.vstack(many), np.hstack(labels)) for many in zip(*found, strict=True)]
    assert errors[0] < 0.05
    assert min(errors[1:]) > 0.1
