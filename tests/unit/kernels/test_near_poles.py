"""Functions that are singular close to the unit circle: radius, coefficients and modulation."""

import numpy as np
import pytest
from scipy.special import gammaln

import walkernel as wk
from walkernel.kernels import _sequences as sequences

TRIANGLE = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
k = np.arange(256)


def singular_at(c):
    """Return functions that are singular at |z| = c, and what divides them."""
    turned = c * np.exp(0.7j)
    return {
        "pole": lambda x: 1 / (c - x),
        "negative pole": lambda x: 1 / (c + x),
        "complex poles": lambda x: 1 / ((turned - x) * (turned.conj() - x)),
        "double pole": lambda x: 1 / (c - x) ** 2,
        "inverse root": lambda x: (c - x) ** -0.5,
        "logarithm": lambda x: 3 - np.log(c - x),
        "product": lambda x: np.exp(x) / (c - x),
    }


def binomial(exponent, c):
    """Return the coefficients of (c − x)^−exponent."""
    logs = gammaln(k + exponent) - gammaln(k + 1) - gammaln(exponent)
    return np.exp(logs - (k + exponent) * np.log(c))


@pytest.mark.parametrize("name", singular_at(2.0))
@pytest.mark.parametrize("digits", [1, 3, 5, 8])
def test_the_radius_reaches_to_the_singularity(name, digits):
    c = 1 + 10.0**-digits
    assert 1 < sequences.analytic_radius(singular_at(c)[name]) <= c


@pytest.mark.parametrize("name", singular_at(2.0))
@pytest.mark.parametrize("c", [1.0, 0.999, 1 - 1e-8])
def test_singularities_on_and_inside_the_circle_are_seen(name, c):
    radius = sequences.analytic_radius(singular_at(c)[name])
    assert 0.999 * c < radius <= c


@pytest.mark.parametrize("c", [1.0, 0.999, 1 - 1e-7])
def test_a_kernel_that_diverges_is_refused(c):
    kernel = wk.PowerSeries.from_function(lambda x: 1 / (c - x))
    with pytest.raises(wk.DivergentKernelError, match="diverges"):
        wk.exact_kernel(TRIANGLE, kernel)


@pytest.mark.parametrize("digits", [1, 4, 8])
def test_coefficients_and_modulation_near_a_pole(digits):
    c = 1 + 10.0**-digits
    kernel = wk.PowerSeries.from_function(lambda x: 1 / (c - x))
    assert np.allclose(kernel.coefficients(k.size), binomial(1.0, c), rtol=0, atol=1e-12)
    assert np.allclose(kernel.modulation(k.size), binomial(0.5, c), rtol=0, atol=1e-12)
    root = wk.PowerSeries.from_function(lambda x: 1 / (c - x) ** 2)
    assert np.allclose(root.modulation(k.size), binomial(1.0, c), rtol=0, atol=1e-11)


def test_a_kernel_with_a_pole_near_the_circle_has_its_exact_matrix():
    kernel = wk.PowerSeries.from_function(lambda x: 1 / (1.00002 - x))
    M = TRIANGLE.to_scipy("normalized").toarray()
    expected = np.linalg.inv(1.00002 * np.eye(4) - M)
    assert np.allclose(wk.exact_kernel(TRIANGLE, kernel), expected, rtol=1e-9, atol=0)


def test_a_zero_near_the_circle_ends_the_radius_of_the_root():
    kernel = wk.PowerSeries.from_function(lambda x: 1.00002 - x)
    assert 1 < kernel.power_radius(0.5) <= 1.00002
    inside = wk.PowerSeries.from_function(lambda x: 0.99998 - x)
    assert inside.power_radius(0.5) <= 0.99998


def test_coefficients_that_cannot_be_told_from_values_are_refused(monkeypatch):
    for name in ("MAX_POINTS", "MAX_FINE_POINTS"):
        monkeypatch.setattr(sequences, name, 2**12)
    assert np.allclose(sequences.power_on_circle(lambda z: 1 / (1 - z), 1.0, 64, 1.0), 1.0)
    with pytest.raises(ValueError, match=r"cannot be told.*Ask for fewer terms"):
        sequences.power_on_circle(lambda z: 1 / (1 - z), 1.0, 1024, 1.0)


def test_entire_functions_have_no_edge():
    assert sequences.analytic_radius(np.exp) == np.inf
    assert sequences.analytic_radius(lambda x: 1 + x**3000) == np.inf
