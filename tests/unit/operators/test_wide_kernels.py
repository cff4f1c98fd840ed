"""Kernels whose series are long: all of it is walked, or the kernel is refused with a remedy that works."""

import math
import re
import warnings

import numpy as np
import pytest

import graphs
import walkernel as wk
from commands import call
from walkernel.features import Lazy, Modulated, Symmetric, find_series, lack_of_variance
from walkernel.operators._unseen import walk_laws
from walkernel.planning import find_polynomial

TOO_WIDE = [wk.Diffusion(1e4), wk.RegularizedLaplacian(1, 1e3), wk.Matern(1.5, 1e4), wk.InverseCosine(1e4)]


@pytest.fixture(scope="module")
def small():
    return graphs.karate()


def modulated(graph, kernel, pair="symmetric"):
    weights = Symmetric(kernel) if pair == "symmetric" else Lazy(kernel)
    return Modulated(graph, weights, (False, True))


@pytest.mark.parametrize("kernel", [wk.Diffusion(300.0), wk.RegularizedLaplacian(1, 200.0)])
def test_series_are_followed_to_their_end(small, kernel):
    sequence = modulated(small, kernel)
    assert sequence.is_served
    assert sequence.sizes("weights").sum() ** 2 == pytest.approx(float(kernel.spectrum(1.0)), rel=1e-5)


def test_what_begins_late_is_found_by_the_function(small):
    """The first 128 coefficients seem to be all there is."""
    kernel = wk.Diffusion(0.1) + wk.Diffusion(100.0)
    assert np.abs(kernel.coefficients(4096)[64:]).sum() < 1e-9
    assert find_series(kernel, 1.0, 1.0, 1e-6).terms.sum() == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("kernel", TOO_WIDE)
def test_what_lies_beyond_is_known(small, kernel):
    pair = "lazy" if isinstance(kernel, wk.InverseCosine) else "symmetric"
    assert not modulated(small, kernel, pair).beyond() <= 1e-6


def test_the_share_beyond_the_end(small):
    """Of a geometric series, f_k = √(1−c) c^k for d = 2, c^n is left after n terms."""
    kernel = wk.RegularizedLaplacian(2, 1e3)
    left = (1e6 / (1 + 1e6)) ** kernel.max_length(0.5)
    assert modulated(small, kernel).beyond() == pytest.approx(left, rel=1e-6)


@pytest.mark.parametrize("kernel", [wk.Diffusion(190.0), wk.Matern(1.5, 60.0)])
def test_estimates_have_their_whole_sum(kernel):
    """K̂ of a wide kernel is within its own error bars of K, and not smaller than K."""
    graph = wk.Graph.from_scipy(1.0 - np.eye(5))
    K = wk.estimate_kernel(graph, kernel, n_walks=32, seed=1)
    estimate = K.estimate_row_sums()
    exact = wk.exact_kernel(graph, kernel).sum(axis=1)
    assert (np.abs(estimate.value - exact) < 5 * estimate.stderr).all()
    assert (estimate.stderr < 0.5 * exact).all()


def test_walks_longer_than_the_series_lack_what_lies_beyond(small):
    """One walk in a million is longer than all terms that can be computed, but so is f."""
    sequence = modulated(small, wk.RegularizedLaplacian(1, 1e3))
    sampler = wk.IndependentWalks(1e-6)
    assert sampler.reach(1e-6) > sequence.sizes("weights").size
    assert sequence.beyond() > 0.1
    assert f"{100 * sequence.beyond():.3g} % of it lies" in lack_of_variance(sequence, sampler)


def refusals(graph, kernel):
    nodes = range(graph.n_nodes)
    y = np.arange(float(graph.n_nodes))
    yield lambda: wk.estimate_kernel(graph, kernel)
    yield lambda: wk.estimate_kernel(graph, kernel, 16, pair="lazy")
    yield lambda: wk.estimate_kernel(graph, kernel, tolerance=0.1)
    yield lambda: wk.NodeRidge(graph, kernel, normalize=False, alpha=1.0, method="walks").fit(nodes, y)
    yield lambda: wk.NodeSmoother(graph, kernel, average=False, method="walks").fit(nodes, y)
    yield lambda: wk.NodeFeatures(graph, kernel, normalize=False, method="walks").fit(nodes).transform(nodes)
    yield lambda: wk.choose_sampler(graph, wk.Diffusion(1.0), kernel)
    yield lambda: wk.matched_law(graph, kernel)


@pytest.mark.parametrize("case", range(8))
def test_too_wide_kernels_are_refused(small, case):
    kernel = TOO_WIDE[case % 3]
    with pytest.raises(
        ValueError, match=r"too wide for walks.*% of its modulation function.*polynomial_operator"
    ):
        list(refusals(small, kernel))[case]()


def test_equations_over_long_times_are_refused(small):
    with pytest.raises(ValueError, match=r"too wide for walks"):
        wk.solve_ode(small, None, 1e8, initial=np.eye(34)[0], method="walks")


def test_the_command_line_refuses():
    done = call("kernel", "karate", "--entry", "0", "33", "--kernel", "regularized-laplacian(sigma=1000)")
    assert done.exit_code == 1
    assert "too wide for walks" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("kernel", TOO_WIDE[:3])
@pytest.mark.filterwarnings("ignore:.*rounding the entries of M")
def test_the_remedy_works(small, kernel):
    with pytest.raises(ValueError, match=r"has an error of") as refused:
        wk.estimate_kernel(small, kernel)
    products, error = re.search(
        r"takes (\d+) sparse products .* error of ([\de.+-]+)\.", str(refused.value)
    ).groups()
    v = np.random.default_rng(0).standard_normal(34)
    K = wk.polynomial_operator(small, kernel, tol=float(error))
    assert K.explain().polynomial_products <= 1.1 * int(products)
    exact = wk.exact_kernel(small, kernel) @ v
    largest = float(np.abs(kernel.spectrum(1.0)))
    assert np.linalg.norm(K @ v - exact) <= 2 * float(error) * largest * np.linalg.norm(v)


def test_where_terms_overflow_nothing_else_is_blamed(small):
    """Sums of 1e260 are numbers, but products of such terms with loads may be none."""
    with pytest.raises(ValueError, match="too large for floating-point numbers"):
        wk.estimate_kernel(small, 1e260 * wk.Diffusion(1.0), 16, pair="lazy")
    with pytest.raises(ValueError, match="too large for floating-point numbers"):
        wk.estimate_kernel(small, wk.InverseCosine(1e4))


@pytest.mark.parametrize("sigma", [1e2, 1e4, 1e5])
def test_polynomials_see_peaks_between_their_points(small, sigma):
    """The heat kernel of a long time is zero at all but the last of some hundred Chebyshev points."""
    polynomial = find_polynomial(small, wk.Diffusion(sigma), 1e-6)
    assert polynomial.coefficients.sum() == pytest.approx(1.0, abs=1e-5)


def test_polynomials_tell_what_rounding_costs(small):
    kernel = wk.RegularizedLaplacian(1, 1e5)
    with pytest.warns(UserWarning, match="rounding the entries of M changes it by 9e-06"):
        K = wk.polynomial_operator(small, kernel)
    assert K.explain().error == pytest.approx(9e-6, rel=0.1)
    with pytest.raises(ValueError, match="rounding of M to 16 digits"):
        wk.polynomial_operator(small, wk.RegularizedLaplacian(1, 1e7))


def test_directed_graphs_have_no_polynomial_where_their_series_is_too_long():
    """The first million coefficients of the heat kernel of a long time are zero, and are not all there is."""
    for kernel in (wk.RegularizedLaplacian(1, 1e3), wk.Diffusion(1e4)):
        assert find_polynomial(graphs.directed(), kernel, 1e-6) is None
    assert math.isfinite(find_polynomial(graphs.directed(), wk.RegularizedLaplacian(1, 100.0), 1e-6).tol)


@pytest.mark.parametrize("n", [8, 20])
def test_polynomials_of_chains_are_as_long_as_the_chains(n):
    """Powers of a chain's matrix are of norm 1 up to its length, although its spectral radius is zero."""
    chain = wk.Graph.from_scipy(np.diag(np.ones(n - 1), 1))
    kernel = wk.Diffusion(1.0, matrix="adjacency")
    exact = wk.exact_kernel(chain, kernel)
    assert np.abs(wk.polynomial_operator(chain, kernel).to_dense() - exact).max() < 1e-6 * exact.max()


@pytest.mark.parametrize("make", [graphs.karate, graphs.directed])
def test_the_dense_kernel_is_whole_or_refused(make):
    """Of the series that is summed for a directed graph, the first terms are all zero."""
    kernel = wk.Diffusion(60.0)
    exact = wk.exact_kernel(make(), kernel)
    squared = wk.exact_kernel(make(), wk.Diffusion(60.0 * math.sqrt(2)))
    assert np.allclose(exact @ exact, squared, rtol=1e-6, atol=1e-12 * squared.max())
    assert squared.max() > 0
    with pytest.raises(ValueError, match="narrower"):
        wk.exact_kernel(make(), wk.RegularizedLaplacian(1, 1e7))


def test_the_dense_kernel_of_a_directed_graph_needs_its_whole_series():
    """Rounding changes this kernel by 1e-9 only, but a third of its series lies beyond the last term."""
    with pytest.raises(ValueError, match=r"series of .* is longer than the \d+ terms that can be computed"):
        wk.exact_kernel(graphs.directed(), wk.RegularizedLaplacian(1, 1e3))


def test_the_dense_kernel_tells_what_rounding_costs(small):
    with pytest.warns(UserWarning, match="exact_kernel: .*rounding the entries of M changes it by 9e-06"):
        wk.exact_kernel(small, wk.RegularizedLaplacian(1, 1e5))


def test_noise_that_drowns_a_kernel_is_not_taken_for_it(small):
    """Terms of 1e33 cancel to values of at most one; by chance their noise looks like a kernel."""
    for seed in range(8):
        K = wk.estimate_kernel(small, wk.InverseCosine(100.0), seed=seed)
        assert K.explain().error > 1e10


def test_weights_of_walks_that_overflow_are_refused(small):
    A = np.array([[0.0, 2.0, 1.0], [1.5, 0.0, 3.0], [2.5, 1.0, 0.0]])
    graph = wk.Graph.from_scipy(A, directed=True)
    with pytest.raises(ValueError, match=r"f\(k\) / S\(k\) to be a number"):
        wk.sample_features(graph, np.array([1e300] * 40, dtype=float), 4, sampler=wk.IndependentWalks(0.9))
    with pytest.raises(ValueError, match="loads times f to be numbers"):
        wk.sample_walks(small, 64).features(np.full(200, 1e308))


def test_laws_of_walks_tell_whether_they_are_complete():
    """The walks of a kernel this wide have more lengths than the moments of a walk are computed for."""
    path = wk.Graph.from_edges([(i, i + 1) for i in range(4)])
    wide, narrow = (
        walk_laws(wk.estimate_kernel(path, wk.Diffusion(sigma), 16).groups)[0] for sigma in (100.0, 1.0)
    )
    assert not wide.is_closed
    assert not wide.is_exact
    assert narrow.is_closed


def test_walks_that_are_too_short_for_the_kernel_are_warned_of():
    """With them K̂ is nearly zero in most samples, and so are its error bars."""
    short = wk.IndependentWalks(0.1)
    with pytest.warns(
        wk.InfiniteVarianceWarning, match="wider than the walks of .*: of 8 walks less than one"
    ):
        wk.estimate_kernel(graphs.karate(), wk.Diffusion(14.0), 8, sampler=short)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wk.estimate_kernel(graphs.karate(), wk.Diffusion(2.0), 8, sampler=short)
