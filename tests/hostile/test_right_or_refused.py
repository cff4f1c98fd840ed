"""Every public number on graphs and kernels of any kind: right within its stated error, or refused.

A refusal is a ValueError with a message. A warning that an estimator has no finite variance excuses its
numbers from being right, not from being numbers. Examples are drawn by a fixed rule, so that nothing is
flaky.
"""

import warnings

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

import walkernel as wk
from hostile.cases import bridge, graphs, hub, kernels, lognormal, loops, make_graph, options, seeds

FACTOR = 6.0
"""Stated errors that the true one may be away."""
LEVEL = 1 - 1e-6
"""Level of intervals that hold in all examples."""
ROUNDING = 1e-8
"""Relative error that the dense truth itself may have for the widest kernels."""


MOST_STEPS = 1e6
"""Steps that an example may take."""


def truth(graph, kernel):
    """Return the dense kernel; examples for which that is refused are passed over."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            K = wk.exact_kernel(graph, kernel)
        except ValueError:
            assume(False)
    assume(np.isfinite(K).all() and 1e-200 < np.abs(K).max() < 1e200)
    return K


def is_explained(refusal):
    """Tell whether a refusal says more than that something is wrong."""
    return type(refusal) in (ValueError, wk.DivergentKernelError) and len(str(refusal)) > 40


def pass_over_long_walks(graph, kernel, n_walks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            steps = wk.choose_sampler(graph, kernel).mean_steps
        except ValueError:
            steps = 0.0  # which the call itself has to refuse
    assume(steps * n_walks * graph.n_nodes < MOST_STEPS)


def estimate(graph, kernel, **options):
    """Return K̂ and whether it was said to be unreliable; None if it was refused with a reason."""
    pass_over_long_walks(graph, kernel, options.get("n_walks", 3))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            K = wk.estimate_kernel(graph, kernel, **options)
        except ValueError as refusal:
            if not is_explained(refusal):
                raise
            return None, True
    assert all(issubclass(w.category, UserWarning) for w in said), said
    return K, any(issubclass(w.category, wk.InfiniteVarianceWarning) for w in said)


def rounding(kernel):
    """Return what rounding does to the dense truth, relative to its largest entry."""
    ends = np.array([1.0, -1.0])
    values, moved = kernel.spectrum(ends), kernel.spectrum(ends * (1 - 1e-14))
    return 1e-13 + np.abs(values - moved).max() / np.abs(values).max()


def scale(array):
    """Return the Euclidean norm, which overflows for no array that has finite entries."""
    largest = np.abs(array).max(initial=0.0)
    return largest * np.linalg.norm(array / largest) if largest > 0 else 0.0


@example(make_graph(hub, 0, 5), wk.Diffusion(300.0), {}, 0)
@example(make_graph(lognormal, 1, 6), wk.RegularizedLaplacian(1, 150.0), {}, 0)
@example(make_graph(loops, 2, 4), wk.Matern(1.5, 300.0), {"n_walks": 16}, 0)
@example(make_graph(hub, 0, 5), wk.PStepRandomWalk(452), {"n_walks": 64}, 0)
@given(graphs, kernels(), options, seeds)
def test_the_stated_error_is_the_error(graph, kernel, options, seed):
    exact = truth(graph, kernel)
    K, unreliable = estimate(graph, kernel, seed=seed, **options)
    assume(K is not None)
    dense = K.to_dense()
    assert np.isfinite(dense).all()
    stated = K.explain().error
    assert stated is None or stated >= 0
    if stated is not None and not unreliable and stated < 0.5:
        assert scale(dense - exact) <= (FACTOR * stated + ROUNDING) * scale(exact)


@given(graphs, kernels(), options, seeds)
def test_products_are_within_their_error_bars(graph, kernel, options, seed):
    """In all undirected graphs: where walks can die out, the few that do not may carry all of a product."""
    exact = truth(graph, kernel)
    K, unreliable = estimate(graph, kernel, seed=seed, **options)
    assume(K is not None and K.n_steps > 0)
    v = np.random.default_rng(seed).standard_normal(graph.n_nodes)
    product = K.estimate_product(v)
    assert np.isfinite(product.value).all()
    assert np.isfinite(product.stderr).all()
    if not unreliable and not graph.directed:
        error, allowed = scale(product.value - exact @ v), scale(product.interval(LEVEL)[1] - product.value)
        assert error <= allowed + ROUNDING * scale(exact) * scale(v)


@given(graphs, kernels(), seeds, st.integers(-190, 190))
def test_numbers_scale(graph, kernel, seed, exponent):
    """The error bars of K(cv) are |c| times those of Kv."""
    truth(graph, kernel)
    K, _ = estimate(graph, kernel, n_walks=16, seed=seed)
    assume(K is not None)
    v = np.random.default_rng(seed).standard_normal(graph.n_nodes)
    plain = K.estimate_product(v)
    size = max(np.abs(plain.value).max(), 1e-300)
    assume(abs(np.log10(size) + exponent) < 280)
    scaled = K.estimate_product(-v * 10.0**exponent)
    assert np.allclose(scaled.stderr / 10.0**exponent, plain.stderr, rtol=1e-6, atol=1e-14 * size)


@example(make_graph(hub, 0, 5), wk.RegularizedLaplacian(1, 1000.0), 0, 0.1)
@example(make_graph(hub, 0, 5), wk.Diffusion(2000.0), 0, 0.1)
@given(graphs, kernels(), seeds, st.sampled_from((0.3, 0.1, 0.03)))
def test_an_accepted_tolerance_is_met(graph, kernel, seed, tolerance):
    """Met by at least 95 % of samples, so that one that misses it by a third would be a rare one."""
    assume(graph.n_nodes > 1)
    exact = truth(graph, kernel)
    pass_over_long_walks(graph, kernel, 1024 / graph.n_nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wk.InfiniteVarianceWarning)
        try:
            K = wk.estimate_kernel(graph, kernel, seed=seed, tolerance=tolerance)
        except ValueError as refusal:
            if not is_explained(refusal):
                raise
            return
    assert scale(K.to_dense() - exact) <= 1.34 * tolerance * scale(exact)


@given(graphs, kernels(), st.sampled_from((1e-4, 1e-8)))
def test_polynomials_keep_their_promise(graph, kernel, tol):
    exact = truth(graph, kernel)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            P = wk.polynomial_operator(graph, kernel, tol=tol)
        except ValueError as refusal:
            if not is_explained(refusal):
                raise
            return
    stated = P.explain().error
    assert stated == tol or any("rounding" in str(w.message) for w in said) or stated <= 1e-8
    assume(P.polynomial.coefficients.size < 20_000)
    v = np.random.default_rng(0).standard_normal(graph.n_nodes)
    if kernel.matrix == "random-walk":
        size = max(np.abs(exact).sum(axis=1).max(), np.abs(kernel.coefficients(4096)).sum())
        assert np.abs(P @ v - exact @ v).max() <= (2 * stated + ROUNDING) * size * np.abs(v).max()
    elif not graph.directed:
        largest = np.linalg.norm(exact / np.abs(exact).max(), 2) * np.abs(exact).max()
        ends = (
            np.abs(np.real(kernel.spectrum(np.array([-1.0, 1.0])))).max()
            if kernel.matrix != "adjacency"
            else 0
        )
        limit = 2 * stated * max(largest, ends) + ROUNDING * largest
        if kernel.matrix != "adjacency":
            assert scale(P @ v - exact @ v) <= limit * scale(v)


@example(make_graph(bridge, 3, 3), wk.Diffusion(3.0), {"n_walks": 256}, 0)
@example(make_graph(bridge, 5, 4), wk.Diffusion(3.0), {}, 0)
@example(make_graph(bridge, 3, 3), wk.RegularizedLaplacian(1, 1.0), {"budget": 2400}, 0)
@given(graphs, kernels(), options, seeds)
def test_entries_are_within_their_error_bars(graph, kernel, options, seed):
    """Most 95 % intervals of the entries that are not marked hold, in every single sample.

    Entries of one sample depend on one another, so that a sample may have fewer than 95 %; where the spread
    of walks does not see what they miss, it has hardly any.
    """
    exact = truth(graph, kernel)
    K, unreliable = estimate(graph, kernel, seed=seed, **options)
    assume(K is not None and not unreliable and graph.n_nodes > 1)
    nodes = np.arange(graph.n_nodes)
    estimates = K.estimate(nodes[:, None], nodes)
    assert np.isfinite(estimates.stderr).all()
    low, high = estimates.interval()
    room = rounding(kernel) * np.abs(exact).max()
    held = (low - room <= exact) & (exact <= high + room)
    unmarked = ~estimates.rare
    assert held[unmarked].mean() > 0.5 if unmarked.sum() > 9 else True
    marked = exact[estimates.rare] <= estimates.upper[estimates.rare] * (1 + ROUNDING) + ROUNDING
    assert marked.mean() > 0.8 if marked.size > 9 else True
