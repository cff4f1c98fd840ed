"""Chebyshev polynomials of a matrix: moments, blocks and products equal the exact kernel."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.datasets import grid
from walkernel.engines import CPU
from walkernel.operators import ChebyshevBasis, LeadingEigenvectors
from walkernel.planning import chebyshev_terms

KERNELS = [wk.Diffusion(3.0), wk.Matern(2.5, 4.0), wk.Diffusion(2.0, matrix="combinatorial")]


def terms_of(basis, kernel, tol=1e-12):
    return chebyshev_terms(lambda x: np.real(kernel.spectrum(x)), basis.unit, tol)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("graph", [graphs.weighted(), graphs.karate()], ids=["weighted", "karate"])
def test_blocks_products_and_moments_are_those_of_the_exact_kernel(graph, kernel):
    basis = ChebyshevBasis(graph, kernel.matrix)
    terms, exact = terms_of(basis, kernel), wk.exact_kernel(graph, kernel)
    some, all_nodes = np.array([0, 3, 5]), np.arange(graph.n_nodes)
    assert np.allclose(basis.block(terms, some, all_nodes), exact[some], atol=1e-10)
    assert np.allclose(basis.block(terms, all_nodes, some), exact[:, some], atol=1e-10)
    V = np.random.default_rng(0).standard_normal((graph.n_nodes, 40))
    assert np.allclose(basis.product(terms, V), exact @ V, atol=1e-9)
    for nodes in (some, np.arange(2, graph.n_nodes).repeat(3)):  # one block of columns, and several
        found = basis.covariance(terms, basis.moments(nodes, terms.size + 1), nodes.size)
        assert np.allclose(found, exact[np.ix_(nodes, nodes)], atol=1e-11)
        assert np.array_equal(found, found.T)


def test_single_precision_is_close_and_used_for_much_work_only(monkeypatch):
    from walkernel.operators import _chebyshev

    graph, kernel = graphs.karate(), wk.Diffusion(4.0)
    basis = ChebyshevBasis(graph, "normalized")
    terms, some = terms_of(basis, kernel), np.arange(5)
    exact = basis.block(terms, some, some)
    monkeypatch.setattr(_chebyshev, "MAX_DOUBLE_WORK", 0)
    single = basis.block(terms, some, some)
    assert 0 < np.abs(single - exact).max() < 1e-6


def test_threads_give_the_same_bits():
    graph = graphs.karate()
    V = np.random.default_rng(1).standard_normal((34, 100))
    terms = terms_of(ChebyshevBasis(graph, "normalized"), wk.Diffusion(3.0))
    one, three = (ChebyshevBasis(graph, "normalized", CPU(n)).product(terms, V) for n in (1, 3))
    assert np.array_equal(one, three)


def test_the_least_share_bounds_variances_of_wide_kernels():
    graph = graphs.karate()
    for matrix in ("normalized", "combinatorial"):
        share = ChebyshevBasis(graph, matrix).least_share
        kernel = wk.Diffusion(60.0, matrix=matrix)
        smallest = wk.exact_kernel(graph, kernel).diagonal().min()
        assert share == pytest.approx(smallest, rel=1e-3)


def test_polynomials_that_are_too_long_have_no_terms():
    basis = ChebyshevBasis(graphs.karate(), "normalized")
    assert chebyshev_terms(lambda x: np.exp(1e4 * (x - 1)), basis.unit, 1e-12, 64) is None


def test_a_recurrence_is_continued_where_it_stopped():
    basis, some, states = ChebyshevBasis(graphs.karate(), "normalized"), np.arange(0, 34, 3), {}
    whole = basis.moments(some, 40)
    parts = [basis.moments(some, 15, states), basis.moments(some, 40, states, 15)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_leading_eigenvectors_carry_a_wide_kernel():
    graph, kernel = grid(12, 12).graph, wk.Diffusion(6.0)
    basis = ChebyshevBasis(graph, "normalized")
    leading = LeadingEigenvectors(basis, terms_of(basis, kernel), 60)
    exact, some = wk.exact_kernel(graph, kernel), np.array([0, 77, 130])
    values = leading.terms(lambda x: np.real(kernel.spectrum(x)), 0.0, 0)
    assert np.allclose(leading.block(values, some, np.arange(144)), exact[some], atol=1e-7)
    assert np.allclose(leading.diagonal(values), exact.diagonal(), atol=1e-7)
    V = np.random.default_rng(0).standard_normal((144, 3))
    assert np.allclose(leading.product(values, V), exact @ V, atol=1e-6)
    draws = leading.draw(np.sqrt(np.maximum(values, 0)), 4000, np.random.default_rng(2))
    assert np.abs(draws @ draws.T / 4000 - exact).max() < 0.1 * exact.max()


def test_points_are_not_added_where_they_only_round():
    """1 / (1 − .97 x) to 1e-16 of its maximum, from points up to 2²² that would take seconds."""
    asked = []

    def function(x):
        asked.append(x.size)
        return 1 / (1 - 0.97 * x)

    assert chebyshev_terms(function, 1.0, 1e-16) is None
    assert max(asked) < 2**12
    assert chebyshev_terms(function, 1.0, 1e-13) is not None
