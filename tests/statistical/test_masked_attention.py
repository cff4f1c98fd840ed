"""Numerators and denominators of masked attention are unbiased with two sets of walks, and not with one."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import graphs
import walkernel as wk
from depth import mostly_deep
from judges import z_scores
from walkernel.torch import WalkTensors, masked_attention

CLUB, KERNEL = graphs.karate(), wk.Diffusion(1.5)
REPEATS, N_WALKS = 400, 4


def estimates(graph, sets):
    """Return numerators of two columns and denominators, (repeats, n, 3), and what they are of the kernel."""
    rng = np.random.default_rng(5)
    q, k = (torch.tensor(rng.standard_normal((graph.n_nodes, 3))) for _ in range(2))
    v = torch.cat(
        [torch.tensor(rng.standard_normal((graph.n_nodes, 2))), torch.ones(graph.n_nodes, 1)], dim=1
    )
    f = torch.tensor(KERNEL.modulation(80))
    found = []
    for seed in range(REPEATS):
        sides = [WalkTensors(wk.sample_walks(graph, N_WALKS, seed=seed, stream=i)) for i in range(sets)]
        found.append(masked_attention(q, k, v, (sides[0], sides[-1]), f=f, normalize=False).numpy())
    weights = (
        wk.exact_kernel(graph, KERNEL)
        * ((torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).T).numpy()
    )
    return np.array(found), weights @ v.numpy()


def holds(graph, sets):
    """Judge all sums together, at a level of 1e-6: they are correlated, which widens the mean of z²."""
    z, _ = z_scores(*estimates(graph, sets))
    return 0.5 < (z**2).mean() < 1.6 and np.abs(z).max() < norm.isf(1e-6 / (2 * z.size))


@pytest.mark.parametrize("kind", mostly_deep(["karate", "weighted"], ["weighted"]))
def test_two_sets_are_unbiased(kind):
    assert holds(getattr(graphs, kind)(), 2)


def test_one_set_is_biased_on_the_diagonal():
    assert not holds(CLUB, 1)
