"""One suite over all kernels: series, spectrum, modulation, radii, arithmetic."""

import copy
import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import graphs
import walkernel as wk
from walkernel.kernels import Kernel, SquaredSeries, convolve


@dataclass(frozen=True)
class Resolvent(Kernel):
    """A kernel as a user would write it: two methods, nothing else."""

    rate: float = 0.5

    def coefficients(self, length):
        return self.rate ** np.arange(length)

    def spectrum(self, eigenvalues):
        return 1 / (1 - self.rate * np.asarray(eigenvalues))


KERNELS = [
    wk.Diffusion(0.5),
    wk.Diffusion(6.0),
    wk.RegularizedLaplacian(1, 1.0),
    wk.RegularizedLaplacian(2, 3.0),
    wk.RegularizedLaplacian(0.7, 2.0),
    wk.Matern(1.5, 1.0),
    wk.Matern(2.5, 4.0),
    wk.PStepRandomWalk(1, 2.5),
    wk.PStepRandomWalk(2, 2.0),
    wk.PStepRandomWalk(5, 3.0),
    wk.PageRank(0.5),
    wk.PageRank(0.9, matrix="normalized"),
    wk.InverseCosine(1.0),
    wk.InverseCosine(0.0625),
    wk.PowerSeries([2.0, 1.0, 0.5]),
    wk.PowerSeries.from_function(lambda x: np.cosh(x) + 0.3 * x),
    SquaredSeries([1.0, 0.5, 0.2]),
    SquaredSeries([1.0, -0.6, 0.1]),
    wk.Diffusion(1.0) + wk.Matern(),
    3.0 * wk.Diffusion(1.0),
    wk.Diffusion(1.0) * wk.RegularizedLaplacian(1, 1.0),
    wk.RegularizedLaplacian(2, 1.0).scaled(-0.7),
    Resolvent(0.5),
]
each = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: str(k)[:60])
LAMBDA = np.linspace(-1, 1, 41)


@each
def test_series_sums_to_the_spectrum(kernel):
    length = 400
    series = np.polynomial.polynomial.polyval(LAMBDA, kernel.coefficients(length))
    assert np.allclose(series, kernel.spectrum(LAMBDA), rtol=1e-10, atol=1e-12)


@each
def test_modulation_is_the_convolution_root(kernel):
    alpha = kernel.coefficients(120)
    for stitches in (1, 2, 3):
        f = kernel.modulation(120, stitches=stitches)
        whole = f
        for _ in range(2 * stitches - 1):
            whole = convolve(whole, f, 120)
        assert np.abs(whole - alpha).max() <= 1e-12 * np.abs(alpha).max()


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.power_radius(0.5) > 1.0001], ids=str)
def test_generating_function_is_the_matrix_square_root(kernel):
    graph = graphs.karate()
    f, M = kernel.modulation(600), graph.to_scipy(kernel.matrix).toarray()
    root = np.zeros_like(M)
    for value in f[::-1]:
        root = root @ M + value * np.eye(len(M))
    assert np.allclose(root @ root, wk.exact_kernel(graph, kernel), rtol=1e-9, atol=1e-11)


@each
def test_shorter_series_are_prefixes(kernel):
    assert np.allclose(kernel.coefficients(5), kernel.coefficients(50)[:5], rtol=1e-12, atol=1e-15)
    assert np.allclose(kernel.modulation(5), kernel.modulation(50)[:5], rtol=1e-12, atol=1e-15)
    assert kernel.coefficients(1).shape == kernel.modulation(1).shape == (1,)


@each
def test_radii_are_where_the_series_stop_converging(kernel):
    for exponent in (1.0, 0.5):
        radius = kernel.power_radius(exponent)
        terms = np.abs(kernel.power(exponent, 800))
        known = terms > 0
        if math.isinf(radius) or radius > 50 or known.sum() < 400:
            continue
        k = np.flatnonzero(known)[-200:]
        rate = np.exp(-np.polyfit(k, np.log(terms[k]), 1)[0])
        assert rate == pytest.approx(radius, rel=0.02)


@each
def test_scaled_is_a_change_of_f(kernel):
    scaled = kernel.scaled(0.5)
    powers = 0.5 ** np.arange(30)
    assert np.allclose(scaled.coefficients(30), powers * kernel.coefficients(30))
    assert np.allclose(scaled.modulation(30), powers * kernel.modulation(30))
    assert np.allclose(scaled.spectrum(LAMBDA), kernel.spectrum(LAMBDA / 2))
    assert scaled.radius == pytest.approx(2 * kernel.radius)


@pytest.mark.parametrize(
    "kernel",
    [wk.PageRank(0.7), wk.PStepRandomWalk(3, 4.0), wk.RegularizedLaplacian(1, 1.2), wk.Matern(1.5, 2.0)],
    ids=str,
)
def test_terms_of_scaled_kernels_are_numbers_where_their_factors_are_not(kernel):
    """Terms decrease by 3 % each, but βᵏ is beyond all numbers, and the terms without it below them."""
    beta = 0.97 * kernel.power_radius(0.5)
    f = kernel.scaled(beta).modulation(2**13)
    assert np.isfinite(f).all()
    assert np.allclose(f[:40], beta ** np.arange(40) * kernel.modulation(40), rtol=1e-12)
    assert np.abs(f[2**12 :]).sum() < 1e-50


@each
def test_kernels_are_values(kernel):
    assert kernel == copy.deepcopy(kernel)
    assert clone(kernel, safe=False) == kernel
    if "lambda" not in str(kernel):
        assert pickle.loads(pickle.dumps(kernel)) == kernel
    with pytest.raises(AttributeError):
        kernel.matrix = "adjacency"


@each
def test_semidefinite_means_no_negative_spectrum(kernel):
    assert kernel.is_positive_semidefinite() == bool((kernel.spectrum(LAMBDA) >= -1e-12).all())


def test_arithmetic_is_arithmetic_of_functions():
    a, b = wk.Diffusion(1.0), wk.Matern()
    assert np.allclose((a + b).spectrum(LAMBDA), a.spectrum(LAMBDA) + b.spectrum(LAMBDA))
    assert np.allclose((a * b).spectrum(LAMBDA), a.spectrum(LAMBDA) * b.spectrum(LAMBDA))
    assert np.allclose((2 * a).spectrum(LAMBDA), 2 * a.spectrum(LAMBDA))
    assert np.allclose((a * b).coefficients(40), convolve(a.coefficients(40), b.coefficients(40), 40))
    assert not (-1.0 * a).is_positive_semidefinite()


def test_matern_is_a_regularised_laplacian():
    nu, kappa = 2.5, 1.7
    scale = (2 * nu / kappa**2) ** -nu
    other = wk.RegularizedLaplacian(nu, kappa / math.sqrt(2 * nu))
    assert np.allclose(wk.Matern(nu, kappa).coefficients(50), scale * other.coefficients(50))


def test_table_1_of_the_paper():
    """α_k and f of the paper, normalised to α₀ = 1 and with powers of k absorbed into the matrix."""
    k = np.arange(10)
    factorial = np.array([math.factorial(i) for i in k], dtype=float)

    def normalised(terms, c):
        return terms / terms[0] / c**k

    double = np.array([math.prod(range(3 - 2 + 2 * i, 0, -2)) / math.prod(range(2 * i, 0, -2)) for i in k])
    assert np.allclose(normalised(wk.RegularizedLaplacian(3, 0.5).modulation(10), 0.2), double)
    assert np.allclose(normalised(wk.Diffusion(0.7).coefficients(10), 0.245), 1 / factorial)
    assert np.allclose(normalised(wk.Diffusion(0.7).modulation(10), 0.245), 1 / (2**k * factorial))
    assert np.allclose(
        normalised(wk.PStepRandomWalk(4, 3.0).coefficients(10), 0.5), [math.comb(4, i) for i in k]
    )
    signs = np.where(k % 2 == 0, (-1.0) ** (k // 2), (-1.0) ** ((k - 1) // 2))
    assert np.allclose(
        normalised(wk.InverseCosine().coefficients(10), 1.0), signs * (np.pi / 4) ** k / factorial
    )


def test_perfect_squares_have_polynomial_roots():
    assert math.isinf(wk.PowerSeries([1.0, -2.0, 1.0]).power_radius(0.5))
    assert wk.PowerSeries([1.0, -1.0]).power_radius(0.5) == pytest.approx(1.0)
    assert wk.PowerSeries([1.0, 0.0, 4.0]).power_radius(0.5) == pytest.approx(0.5)
    assert wk.PowerSeries([0.0, 1.0]).power_radius(0.5) == 0


def test_tiny_first_coefficients_do_not_underflow():
    f = wk.Diffusion(sigma=60.0).modulation(1800)
    assert f.sum() == pytest.approx(1.0, abs=1e-9)


def test_two_kernels_of_one_class_do_not_share_memory():
    assert not np.allclose(Resolvent(0.5).modulation(4), Resolvent(0.25).modulation(4))


def test_coefficients_of_any_length():
    """Lengths beyond the largest transform of the search, which are no powers of two."""
    kernel = wk.PowerSeries.from_function(np.exp)
    assert np.allclose(kernel.coefficients(32769)[:3], [1, 1, 0.5])
    assert wk.Diffusion(0.01).scaled(2e4).coefficients(100)[:3] == pytest.approx([1, 1, 0.5], rel=1e-3)


def test_integer_parameters_are_real_numbers():
    for sigma in np.arange(1, 4):
        assert wk.RegularizedLaplacian(sigma=sigma).radius == 1 + 1 / float(sigma) ** 2
    assert wk.Diffusion(sigma=np.int8(12)).coefficients(3)[0] == pytest.approx(np.exp(-72))
    assert type(wk.Matern(2, 1).nu) is float


def test_products_of_equal_factors_have_their_factor_for_a_root():
    square = wk.InverseCosine() * wk.InverseCosine()
    assert math.isinf(square.power_radius(0.5))
    assert np.allclose(square.modulation(9), wk.InverseCosine().coefficients(9))
    negative = wk.PowerSeries([-1.0, 0.5])
    assert np.allclose((negative * negative).coefficients(3), [1, -1, 0.25])
    assert (negative * negative).has_root()


def test_extreme_parameters_neither_overflow_nor_vanish():
    assert wk.RegularizedLaplacian(d=1100, sigma=1.0).coefficients(2500).sum() == pytest.approx(1, abs=1e-6)
    assert wk.RegularizedLaplacian(d=60, sigma=1000.0).modulation(50).max() > 0
    listed = wk.PowerSeries(wk.Diffusion(1.0).coefficients(160))
    assert wk.estimate_kernel(graphs.karate(), listed, 8).shape == (34, 34)


def test_functions_in_large_units_and_with_holes():
    assert math.isinf(wk.PowerSeries.from_function(lambda x: np.exp(600 * x), matrix="adjacency").radius)
    hole = wk.PowerSeries.from_function(lambda x: np.expm1(x) / x)
    assert hole.spectrum([0.0, 1.0]) == pytest.approx([1, math.e - 1])
    graph = wk.Graph.from_edges([(0, 1), (1, 2)], n_nodes=4)
    assert np.isfinite(wk.exact_kernel(graph, hole)).all()


def test_semidefiniteness_on_adjacency_matrices_needs_an_interval():
    kernel = wk.PowerSeries([1, 0.5], matrix="adjacency")
    with pytest.raises(ValueError, match="interval"):
        kernel.is_positive_semidefinite()
    assert not kernel.is_positive_semidefinite((-3.0, 3.0))
    assert kernel.is_positive_semidefinite((-2.0, 2.0))


def test_radius_is_found_once():
    kernel = Resolvent(0.9)
    calls = []
    object.__setattr__(kernel, "spectrum", lambda x: calls.append(1) or 1 / (1 - 0.9 * np.asarray(x)))
    first = kernel.radius
    count = len(calls)
    assert count > 0
    assert kernel.radius == first
    assert len(calls) == count
