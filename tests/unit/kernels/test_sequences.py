"""Power series: the stable routes against the theorem's recursion and partition sum."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

import walkernel as wk
from depth import crossed
from walkernel.kernels import _sequences as sequences
from walkernel.kernels import convolve, deconvolve


def recursion(alpha):
    """Theorem 2.2's iterative formula in float64."""
    f = [math.sqrt(alpha[0])]
    for i in range(len(alpha) - 1):
        f.append((alpha[i + 1] - sum(f[i - p] * f[p + 1] for p in range(i))) / (2 * f[0]))
    return np.array(f)


def partitions(total, largest):
    if total == 0:
        yield {}
    for part in range(min(total, largest), 0, -1):
        for rest in partitions(total - part, part):
            yield {**rest, part: rest.get(part, 0) + 1}


def partition_sum(alpha, i):
    """Theorem 2.2's closed sum for α₀ = 1."""
    total = 0.0
    for counts in partitions(i, i):
        n = sum(counts.values())
        binomial = math.prod((0.5 - j) / (j + 1) for j in range(n))
        multinomial = math.factorial(n) / math.prod(math.factorial(k) for k in counts.values())
        total += binomial * multinomial * math.prod(alpha[part] ** k for part, k in counts.items())
    return total


def exact_diffusion(t, length):
    with localcontext() as context:
        context.prec = 80
        terms = [(-Decimal(t)).exp()]
        for k in range(1, length):
            terms.append(terms[-1] * Decimal(t) / k)
        return np.array([float(term) for term in terms])


@pytest.mark.parametrize("t", [0.5, 5, 20, 50])
@pytest.mark.parametrize("stitches", [1, 2, 3])
def test_diffusion_modulation_is_accurate(t, stitches):
    exact = exact_diffusion(Decimal(t) / (2 * stitches), 200)
    named = wk.Diffusion(math.sqrt(2 * t))
    function = wk.PowerSeries.from_function(lambda x: np.exp(t * (x - 1)))
    for kernel in (named, function):
        assert np.abs(kernel.modulation(200, stitches=stitches) - exact).max() <= 1e-12 * exact.max()


def test_twin_the_recursion_is_unstable():
    f = recursion(wk.Diffusion(math.sqrt(60)).coefficients(200))
    exact = exact_diffusion(15, 200)
    assert np.abs(f - exact).max() > 1e6 * exact.max()
    assert np.allclose(convolve(f, f, 40), wk.Diffusion(math.sqrt(60)).coefficients(40), atol=1e-10), (
        "f * f is blind"
    )


@pytest.mark.parametrize(
    "kernel",
    [
        wk.RegularizedLaplacian(1, 0.5),
        wk.RegularizedLaplacian(2.5, 1),
        wk.PStepRandomWalk(3, 3),
        wk.InverseCosine(0.3),
    ],
)
def test_theorem_2_2(kernel):
    alpha = kernel.coefficients(12)
    f = kernel.modulation(12)
    assert np.allclose(f, recursion(alpha), rtol=1e-11)
    scaled = [partition_sum(alpha / alpha[0], i) for i in range(12)]
    assert np.allclose(f / f[0], scaled, rtol=1e-9, atol=1e-14)


def test_corollary_of_the_diffusion_kernel():
    halves = np.array([1 / (2**k * math.factorial(k)) for k in range(20)])
    assert np.allclose(convolve(halves, halves, 20), [1 / math.factorial(k) for k in range(20)], rtol=1e-13)


def test_power_at_other_exponents():
    cube = sequences.power([1.0, 3.0, 3.0, 1.0], 1 / 3, 6)
    assert np.allclose(cube, [1, 1, 0, 0, 0, 0], atol=1e-14)
    assert np.allclose(sequences.power([4.0, 4.0, 1.0], 0.5, 4), [2, 1, 0, 0], atol=1e-15)


def test_decimal_route_beats_the_float_recursion():
    alpha = exact_diffusion(30, 60)
    exact = exact_diffusion(15, 60)
    assert np.abs(sequences.power(alpha, 0.5, 20) - exact[:20]).max() < 1e-7 * exact.max()
    assert np.abs(convolve(*2 * [sequences.power(alpha, 0.5, 60)], 60) - alpha).max() < 1e-13


def test_deconvolution_solves_for_the_other_half():
    rng = np.random.default_rng(0)
    alpha, f2 = rng.standard_normal(30), np.concatenate([[1.5], rng.standard_normal(9) / 4])
    f1 = deconvolve(alpha, f2)
    assert np.allclose(convolve(f1, f2, 30), alpha, atol=1e-9)
    assert np.allclose(deconvolve(alpha, [1.0]), alpha)


def test_winding_numbers_count_zeros():
    def polynomial(z):
        return (z - 0.5) * (z + 0.8) * (z - 2)

    assert sequences.winding_number(polynomial, 0.4) == 0
    assert sequences.winding_number(polynomial, 0.7) == 1
    assert sequences.winding_number(polynomial, 1.0) == 2
    assert sequences.winding_number(polynomial, 3.0) == 3
    assert sequences.winding_number(polynomial, 0.5) is None
    assert sequences.zero_free_radius(lambda z: polynomial(z) * 1.0, math.inf) == pytest.approx(0.5, rel=1e-3)


def test_analytic_radius_finds_the_pole():
    assert sequences.analytic_radius(lambda z: 1 / (1.5 - z)) == pytest.approx(1.5, rel=0.01)
    assert sequences.analytic_radius(lambda z: 1 / (0.3 - z)) == pytest.approx(0.3, rel=0.01)
    assert sequences.analytic_radius(np.exp) > 100
    assert sequences.analytic_radius(np.sqrt) == 0


def test_coefficients_near_a_pole():
    kernel = wk.PowerSeries.from_function(lambda x: (1.2 - x) ** -1.5)
    reference = wk.RegularizedLaplacian(1.5, math.sqrt(5)).scaled(1.0)
    scale = 1.2**-1.5 / reference.coefficients(1)[0]
    assert np.allclose(kernel.coefficients(120), scale * reference.coefficients(120), rtol=1e-8)


@pytest.mark.parametrize(("scale", "exponent"), crossed([1.0, -1.0, 0.5, 0.01, 1.01], [0.5, 0.25, 0.125]))
def test_roots_of_the_inverse_cosine_are_those_of_the_recursion(scale, exponent):
    for length in (1, 2, 64, 65, 300):
        kernel = wk.InverseCosine(scale)
        expected = sequences.power(kernel.coefficients(length), exponent, length)
        assert np.abs(kernel.power(exponent, length) - expected).max() < 1e-13 * np.abs(expected).max()


def test_roots_that_overflow_are_refused():
    with pytest.raises(ValueError, match="The terms of this series overflow"):
        wk.InverseCosine(1e5).modulation(200)
