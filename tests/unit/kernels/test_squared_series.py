"""Kernels that are given by their modulation function: f stays what it is, whatever its signs."""

import math

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.kernels import SquaredSeries

SIGNED = [-0.8, 0.5, -0.3, 0.1]
NO_CONSTANT = [0.0, 1.0, -0.5]


@pytest.mark.parametrize("f", [SIGNED, NO_CONSTANT, [2.0], [0.0, 0.0]])
def test_f_is_the_modulation_to_the_last_bit(f):
    kernel = SquaredSeries(f)
    n = len(f)
    assert kernel.modulation(n + 3).tolist() == [*f, 0, 0, 0]
    assert kernel.modulation(1).tolist() == f[:1]
    assert np.array_equal(kernel.coefficients(2 * n - 1), np.convolve(f, f))
    assert not kernel.coefficients(2 * n + 4)[2 * n - 1 :].any()
    assert kernel.degree == 2 * n - 2
    assert kernel.has_root()
    assert math.isinf(kernel.radius)
    assert math.isinf(kernel.power_radius(0.5))


@pytest.mark.parametrize("f", [SIGNED, NO_CONSTANT])
def test_it_is_the_square_of_a_matrix(f):
    graph, kernel = graphs.karate(), SquaredSeries(f, matrix="combinatorial")
    M = graph.to_scipy("combinatorial").toarray()
    root = sum(value * np.linalg.matrix_power(M, k) for k, value in enumerate(f))
    assert np.allclose(wk.exact_kernel(graph, kernel), root @ root, atol=1e-12)
    x = np.linspace(-1, 1, 9)
    assert np.allclose(kernel.spectrum(x), np.polynomial.polynomial.polyval(x, f) ** 2)
    assert kernel.is_positive_semidefinite()


@pytest.mark.parametrize("f", [SIGNED, NO_CONSTANT])
def test_arithmetic_keeps_f(f):
    kernel, powers = SquaredSeries(f), 0.5 ** np.arange(len(f))
    assert np.allclose(kernel.scaled(0.5).modulation(len(f)), powers * f)
    assert np.allclose(kernel.scaled(0.5).coefficients(2), 0.5 ** np.arange(2) * np.convolve(f, f)[:2])
    assert np.allclose(
        (kernel + wk.Diffusion()).coefficients(3), np.convolve(f, f)[:3] + wk.Diffusion().coefficients(3)
    )
    assert np.allclose((3 * kernel).coefficients(3), 3 * np.convolve(f, f)[:3])
    assert wk.estimate_kernel(graphs.karate(), kernel, 8).shape == (34, 34)


def test_roots_of_a_negative_f_are_those_of_its_negative():
    """f and −f have the same square, and one of them has powers: walks can be stitched with either."""
    f = np.array([-1.0, 0.5, 0.2])
    negative, positive = SquaredSeries(f), SquaredSeries(-f)
    assert np.array_equal(negative.modulation(5, stitches=2), positive.modulation(5, stitches=2))
    root = negative.power(0.25, 40)
    assert np.allclose(np.convolve(root, root)[:3], -f)
    assert negative.power_radius(0.25) == positive.power_radius(0.25) > 0
    assert wk.estimate_kernel(graphs.karate(), negative, 8, stitches=2).shape == (34, 34)


def test_features_of_signed_sequences():
    walks = wk.sample_walks(graphs.signed(), 8)
    for f in (SIGNED, NO_CONSTANT):
        assert np.array_equal(walks.features(SquaredSeries(f)).toarray(), walks.features(f).toarray())


def test_other_powers_are_those_of_f():
    kernel = SquaredSeries([1.0, 0.5, 0.2])
    quarter = kernel.modulation(30, stitches=2)
    assert np.allclose(np.convolve(quarter, quarter)[:30], kernel.modulation(30), atol=1e-13)
    assert kernel.power_radius(0.25) == pytest.approx(np.abs(np.roots([0.2, 0.5, 1.0])).min())
    with pytest.raises(ValueError, match=r"root|positive"):
        SquaredSeries(NO_CONSTANT).modulation(5, stitches=2)


def test_shown_in_a_few_terms():
    assert repr(SquaredSeries([1, 0.123456])) == "SquaredSeries([1, 0.1235])"
    long = SquaredSeries(np.ones(9), matrix="adjacency")
    assert repr(long) == "SquaredSeries([1, 1, 1, 1, …], matrix='adjacency')"


def test_equal_where_f_and_matrix_are():
    assert SquaredSeries([1, 2]) == SquaredSeries(np.array([1.0, 2.0]))
    assert SquaredSeries([1, 2]) != SquaredSeries([1, 2], matrix="adjacency")
    assert SquaredSeries([1, 2]) != SquaredSeries([-1, -2])
    assert hash(SquaredSeries([1, 2])) == hash(SquaredSeries([1.0, 2.0]))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        ([], "SquaredSeries: modulation must be a non-empty list"),
        ([[1.0]], "SquaredSeries: modulation must be 1-dimensional"),
        ([1.0, math.nan], "SquaredSeries: modulation must be finite, got nan at position 1"),
    ],
)
def test_sequences_that_are_none_are_refused(f, message):
    with pytest.raises(ValueError, match=message):
        SquaredSeries(f)
    with pytest.raises(TypeError, match="modulation must be an array of numbers"):
        SquaredSeries("ab")
    with pytest.raises(ValueError, match="SquaredSeries: matrix must be one of"):
        SquaredSeries([1.0], matrix="laplacian")
