"""Regressions in other units: y → a + b·y gives mean → a + b·mean and std → |b|·std."""

import warnings

import numpy as np
import pytest

import walkernel as wk
from depth import crossed

RING = wk.Graph.from_edges([(i, (i + 1) % 60) for i in range(60)])
X = np.arange(0, 60, 2)
Y = np.sin(2 * np.pi * X / 60) + 0.1 * np.random.default_rng(1).standard_normal(30)
OPTIONS = {
    "default": {},
    "nugget": {"learn": ("lengthscale", "amplitude", "noise", "nugget")},
    "cg": {"solver": "cg", "tol": 1e-10},
}
SCALES = [(0.0, 1e-150), (0.0, 1e150), (5.0, -3.0)]


def regression(y, **options):
    model = wk.NodeGPRegressor(
        RING, wk.Diffusion(3.0), n_walks=64, method="walks", **{"normalize": False, **options}
    ).fit(X, y)
    return model, *model.predict(range(60), return_std=True)


@pytest.mark.parametrize(("name", "scale"), crossed(OPTIONS, SCALES))
def test_learned_regressions_follow_the_units(name, scale):
    options, (a, b) = OPTIONS[name], scale
    model, mean, std = regression(a + b * Y, **options)
    plain, expected_mean, expected_std = regression(Y, **options)
    assert np.allclose((mean - a) / b, expected_mean, rtol=0, atol=1e-7)
    assert np.allclose(std / abs(b), expected_std, rtol=1e-5)
    assert model.noise_ / abs(b) == pytest.approx(plain.noise_, rel=1e-5)
    jacobian = (Y.size - 1) * np.log(abs(b))
    for found, expected in (
        (model.log_marginal_likelihood_value_, plain.log_marginal_likelihood_value_),
        (model.log_marginal_likelihood(), plain.log_marginal_likelihood()),
    ):
        assert found + jacobian == pytest.approx(expected, abs=1e-6)
    spread = model.sample_y(n_samples=64, include_noise=True).std(axis=1)
    assert np.allclose(
        spread / abs(b), plain.sample_y(n_samples=64, include_noise=True).std(axis=1), rtol=1e-4
    )


@pytest.mark.parametrize(("a", "b"), [(1000.0, 1e-6), (-5.0, 1e-9), (1e160, 1e150)])
def test_small_deviations_from_a_large_mean_count(a, b):
    _, mean, std = regression(a + b * Y)
    _, expected_mean, expected_std = regression(Y)
    assert np.allclose((mean - a) / b, expected_mean, rtol=0, atol=1e-4)
    assert np.allclose(std / b, expected_std, rtol=1e-3)


def test_deviations_from_a_covariate_count():
    height = np.linspace(0, 1, 60)
    _, mean, std = regression(1000 * height[X] + 1e-6 * Y, covariates=height)
    _, expected_mean, expected_std = regression(Y, covariates=height)
    assert np.allclose((mean - 1000 * height) / 1e-6, expected_mean, rtol=0, atol=1e-4)
    assert np.allclose(std / 1e-6, expected_std, rtol=1e-3)


@pytest.mark.parametrize(
    ("b", "text"), [(1e-12, "noise below that is rounding"), (1e-16, "taken for rounding")]
)
def test_a_warning_says_that_rounding_is_left(b, text):
    with pytest.warns(
        UserWarning, match=f"NodeGPRegressor.fit: y deviates .* {text}.* Subtract the common part"
    ):
        regression(1 + b * Y)


@pytest.mark.parametrize("y", [0.1, 7.0, 1e-150])
def test_a_constant_is_no_matter_of_rounding(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, mean, _ = regression(np.full(30, y))
    assert np.allclose(mean, y, rtol=1e-12, atol=0)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize(("a", "b"), [(0.0, 1e-150), (0.0, 1e150), (1000.0, 1e-6)])
def test_given_hyperparameters_follow_the_units(solver, a, b):
    def predict(a, b):
        model = wk.NodeGPRegressor(
            RING,
            wk.Diffusion(3.0),
            n_walks=64,
            learn=(),
            amplitude=b,
            noise=0.1 * b,
            solver=solver,
            normalize=False,
            method="walks",
        ).fit(X, a + b * Y, noise_std=np.full(30, 0.2 * b))
        return *model.predict(range(60), return_std=True), model.predict([0, 1], return_cov=True)[1]

    mean, std, cov = predict(a, b)
    expected_mean, expected_std, expected_cov = predict(0.0, 1.0)
    assert np.allclose((mean - a) / b, expected_mean, rtol=0, atol=1e-6)
    assert np.allclose(std / b, expected_std, rtol=1e-6)
    assert np.allclose(cov / b / b, expected_cov, rtol=1e-6)


@pytest.mark.parametrize(("a", "b"), [(0.0, 1e-150), (0.0, 1e150), (1000.0, 1e-6)])
def test_posteriors_of_operators_follow_the_units(a, b):
    K = wk.polynomial_operator(RING, wk.Diffusion(3.0))
    found = wk.gp_posterior(K, X, a + b * Y, range(60), noise=0.1 * b, amplitude=b)
    expected = wk.gp_posterior(K, X, Y, range(60), noise=0.1)
    assert np.allclose((found.mean - a) / b, expected.mean, rtol=0, atol=1e-5)
    assert np.allclose(found.std / b, expected.std, rtol=1e-6)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(("a", "b"), [(0.0, 1e-200), (0.0, 1e200), (1000.0, 1e-6)])
def test_ridge_regressions_follow_the_units(a, b, direct, monkeypatch):
    if not direct:
        monkeypatch.setattr("walkernel.tasks._solvers.MAX_DIRECT_NODES", 0)

    def predict(y):
        return (
            wk.NodeRidge(RING, wk.Diffusion(3.0), n_walks=64, normalize=False, alpha=1.0, method="walks")
            .fit(X, y)
            .predict(range(60))
        )

    assert np.allclose((predict(a + b * Y) - a) / b, predict(Y), rtol=0, atol=1e-6)
