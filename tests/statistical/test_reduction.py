"""Anchor points and the Gaussian projection keep the expectation; their twins, with two seeds, do not."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from judges import verdict, within_two_hops

GRAPH = graphs.unweighted()
KERNEL = wk.Diffusion(sigma=1.5)


def products(reduce, n_repeats=300, *, same=True):
    """Reduced Φ₁Φ₂ᵀ over seeds of walks and reduction; ``same``: both sides are reduced alike."""
    result = []
    for i in range(n_repeats):
        left, right = (wk.sample_walks(GRAPH, 64, seed=i, stream=s).features(KERNEL) for s in (0, 1))
        a, b = reduce(left, i), reduce(right, i if same else i + 10**6)
        product = a @ b.T
        result.append(product if isinstance(product, np.ndarray) else product.toarray())
    return np.array(result)


REDUCTIONS = {
    "anchors": lambda features, seed: wk.anchor_points(features, 15, seed=seed),
    "projection": lambda features, seed: wk.johnson_lindenstrauss(features, 20, seed=seed),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_unbiased(name):
    holds, statistics = verdict(
        products(REDUCTIONS[name]), wk.exact_kernel(GRAPH, KERNEL), within_two_hops(GRAPH)
    )
    assert holds, statistics


@pytest.mark.parametrize("name", REDUCTIONS)
def test_twin_different_seeds_on_the_two_sides(name):
    sample = products(REDUCTIONS[name], same=False)
    holds, statistics = verdict(sample, wk.exact_kernel(GRAPH, KERNEL), within_two_hops(GRAPH))
    assert not holds, statistics
