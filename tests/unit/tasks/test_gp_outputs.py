"""Gaussian processes of several outputs: one kernel, and amplitude, noise and mean of each."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

import graphs
import walkernel as wk

GRAPH = graphs.karate()
KNOWN = np.array([0, 1, 2, 5, 8, 11, 16, 19, 23, 26, 30, 32, 33])
TARGETS = np.column_stack([np.sin(KNOWN), 50 + 30 * np.cos(KNOWN / 3), 1e-3 * (KNOWN % 5)])
KERNEL = wk.Diffusion(2.0)
METHODS = [{"method": "polynomial"}, {"method": "walks", "n_walks": 1024}]
GIVEN = {"learn": (), "amplitude": 1.4, "noise": 0.3, "nugget": 0.2}


def smooth(n=12, seed=0):
    """A grid, observed nodes, and two outputs of very different size and noise."""
    rng, ids = np.random.default_rng(seed), np.arange(n * n).reshape(n, n)
    pairs = [(ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])]
    edges = np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs])
    row, column = np.divmod(np.arange(n * n), n)
    truth = np.column_stack([np.sin(row / 3), 1000 * np.cos(column / 3)])
    known = rng.choice(n * n, 60, replace=False)
    noise = np.array([0.05, 300.0])
    return wk.Graph.from_edges(edges), truth, known, truth[known] + noise * rng.standard_normal((60, 2))


@pytest.mark.parametrize("options", METHODS)
def test_outputs_with_given_parameters_are_those_of_single_fits(options):
    common = {**options, **GIVEN, "covariates": np.arange(34.0)}
    noise_std = 0.1 * np.ones_like(TARGETS) * [1, 2, 3]
    both = wk.NodeGPRegressor(GRAPH, KERNEL, **common).fit(KNOWN, TARGETS, noise_std=noise_std)
    mean, std = both.predict(range(34), return_std=True, include_noise=True)
    assert mean.shape == std.shape == (34, 3)
    total = 0.0
    for i in range(3):
        alone = wk.NodeGPRegressor(GRAPH, KERNEL, **common)
        alone.fit(KNOWN, TARGETS[:, i], noise_std=noise_std[:, i])
        own, spread = alone.predict(range(34), return_std=True, include_noise=True)
        assert np.allclose(mean[:, i], own, rtol=1e-10, atol=1e-10)
        assert np.allclose(std[:, i], spread, rtol=1e-10, atol=1e-10)
        assert np.allclose(both.mean_coef_[:, i], alone.mean_coef_, rtol=1e-10, atol=1e-10)
        total += alone.log_marginal_likelihood()
    assert both.log_marginal_likelihood() == pytest.approx(total, rel=1e-10)
    for name, value in (("amplitude_", 1.4), ("noise_", 0.3), ("nugget_", 0.2)):
        assert np.array_equal(getattr(both, name), np.full(3, value))


def test_the_kernel_is_shared_and_scales_belong_to_each_output():
    graph, truth, known, y = smooth()
    model = wk.NodeGPRegressor(graph).fit(known, y)
    assert 0.005 < model.noise_[0] < 0.08
    assert 200 < model.noise_[1] < 400
    assert model.amplitude_.shape == (2,)
    assert model.mean_coef_.shape == (1, 2)
    rest = np.setdiff1d(np.arange(144), known)
    assert model.score(rest, truth[rest]) > 0.9
    fixed = {"learn": ("amplitude", "noise"), "normalize": model.normalize_}
    total = 0.0
    for i in range(2):
        alone = wk.NodeGPRegressor(graph, model.kernel_, **fixed).fit(known, y[:, i])
        total += alone.log_marginal_likelihood_value_
        assert alone.amplitude_ == pytest.approx(model.amplitude_[i], rel=1e-2)
        assert alone.noise_ == pytest.approx(model.noise_[i], rel=1e-2)
    # moments are kept in single precision, rows of a given kernel in double
    assert model.log_marginal_likelihood_value_ == pytest.approx(total, abs=5e-2)


def test_the_kernel_has_the_largest_sum_of_likelihoods():
    graph, _, known, y = smooth()
    model = wk.NodeGPRegressor(graph, KERNEL).fit(known, y)

    def value(lengthscale):
        kernel = wk.Diffusion(lengthscale)
        models = [wk.NodeGPRegressor(graph, kernel, learn=("amplitude", "noise")) for _ in range(2)]
        fits = [one.fit(known, y[:, i]) for i, one in enumerate(models)]
        return sum(one.log_marginal_likelihood_value_ for one in fits)

    best = model.kernel_.lengthscale
    assert value(best) == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-2)
    assert value(best) > max(value(0.8 * best), value(1.25 * best))


def test_units_do_not_matter_with_walks():
    graph, truth, known, y = smooth()
    options = {"method": "walks", "n_walks": 256}
    model = wk.NodeGPRegressor(graph, KERNEL, **options).fit(known, y)
    assert np.ptp(model.noise_ / model.amplitude_) < 1e-9  # shared, in units of the spread of each
    other = wk.NodeGPRegressor(graph, KERNEL, **options).fit(known, y * [1e6, 1e-6])
    assert np.allclose(other.predict(range(144)) / [1e6, 1e-6], model.predict(range(144)), rtol=1e-5)
    assert model.score(np.arange(144), truth) > 0.8
    assert np.isfinite(model.log_marginal_likelihood())


@pytest.mark.parametrize("options", METHODS)
def test_draws_have_the_moments_of_each_posterior(options):
    model = wk.NodeGPRegressor(GRAPH, KERNEL, **options, **GIVEN).fit(KNOWN, TARGETS)
    some = np.arange(0, 34, 3)
    mean, std = model.predict(some, return_std=True)
    draws = model.sample_y(some, 4000, random_state=1)
    assert draws.shape == (some.size, 3, 4000)
    assert np.abs((draws.mean(axis=2) - mean) / std).max() < 4.5 / np.sqrt(4000)
    assert np.abs(draws.std(axis=2) / std - 1).max() < 0.06
    between = np.corrcoef(draws[4, 0], draws[4, 1])[0, 1]
    assert abs(between) < 0.08  # outputs are independent
    assert model.sample_y(n_samples=2, include_noise=True).shape == (34, 3, 2)


def test_condition_replaces_the_observations_of_all_outputs():
    model = wk.NodeGPRegressor(GRAPH, KERNEL).fit(KNOWN, TARGETS)
    again = clone(model).fit(KNOWN, TARGETS).condition(KNOWN[:5], TARGETS[:5]).condition(KNOWN, TARGETS)
    assert np.allclose(again.predict(range(34)), model.predict(range(34)), rtol=1e-12)
    assert np.allclose(again.mean_coef_, model.mean_coef_, rtol=1e-12)


def test_one_column_is_the_same_as_a_flat_y_but_for_its_shape():
    flat = wk.NodeGPRegressor(GRAPH).fit(KNOWN, TARGETS[:, 0])
    column = wk.NodeGPRegressor(GRAPH).fit(KNOWN, pd.DataFrame(TARGETS[:, :1]))
    assert isinstance(flat.amplitude_, float)
    assert isinstance(flat.noise_, float)
    assert column.noise_.shape == (1,)
    for a, b in zip(
        flat.predict([3, 4], return_std=True), column.predict([3, 4], return_std=True), strict=True
    ):
        assert np.array_equal(a[:, None], b)
    assert column.predict([3, 4], return_cov=True)[1].shape == (2, 2)
    assert np.array_equal(flat.sample_y([3], 2)[:, None], column.sample_y([3], 2))


def test_standard_deviations_of_many_nodes_and_tags():
    graph, _, known, y = smooth(24)
    model = wk.NodeGPRegressor(graph, wk.Matern(1.5, 4.0), learn=("amplitude", "noise")).fit(known, y)
    _, drawn = model.predict(range(576), return_std=True)
    _, exact = model.predict(range(100), return_std=True)
    assert np.abs(drawn[:100] / exact - 1).max() < 0.25
    assert get_tags(model).target_tags.multi_output


def test_the_likelihood_at_another_lengthscale_is_that_of_a_fit_there():
    y = TARGETS[:, 0]
    model = wk.NodeGPRegressor(GRAPH, KERNEL).fit(KNOWN, y)
    theta = np.log([3.0, 0.7, 0.2])
    other = wk.NodeGPRegressor(GRAPH, wk.Diffusion(3.0), learn=(), amplitude=0.7, noise=0.2).fit(KNOWN, y)
    assert model.log_marginal_likelihood(theta) == pytest.approx(other.log_marginal_likelihood(), rel=1e-8)


def test_a_single_observation_is_the_mean_everywhere():
    features = np.sin(np.arange(34.0))
    for y, options in (([2.5], {}), ([[2.5, -1e3]], {}), ([2.5], {"features": features})):
        mean, std = wk.NodeGPRegressor(GRAPH, **options).fit([4], y).predict([0, 4], return_std=True)
        assert np.allclose(mean, y)
        assert (std > 0).all()
