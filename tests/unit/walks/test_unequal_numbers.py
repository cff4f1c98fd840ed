"""Pruned walks in unequal numbers: which numbers can be asked for, and how much they leave."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.engines import FeatureJob
from walkernel.engines import _stored_features as storing
from walkernel.walks import WalkSpec

SIZES = wk.Diffusion(1.0).modulation(16)
UNEQUAL = wk.PrunedWalks(SIZES, threshold=0.06, head=3, unevenness=3.0, group=8)


def test_numbers_that_are_no_multiple_of_a_group_are_refused():
    """A share of them would be rounded, and not count what its walks are weighted with."""
    graph = graphs.karate()
    for number in (4, 12):
        with pytest.raises(ValueError, match=f"n_walks must be a multiple of 8, .* got {number}"):
            wk.sample_walks(graph, number, sampler=UNEQUAL)
        with pytest.raises(ValueError, match=f"n_walks must be a multiple of 8, .* got {number}"):
            wk.estimate_kernel(graph, wk.Diffusion(1.0), number, sampler=UNEQUAL, ensembles="independent")
    home = wk.sample_features(graph, [1.0] + 30 * [0.0], 16, sampler=UNEQUAL)
    np.testing.assert_allclose(home.diagonal(), 1.0, rtol=1e-15)


def test_heads_deeper_than_the_sizes():
    graph, f = graphs.weighted(), [0.7, 0.5, 0.2]
    walks = wk.sample_walks(graph, 16, sampler=wk.PrunedWalks(f, head=4))
    M = graph.to_scipy("normalized").toarray()
    expected = 0.7 * np.eye(30) + 0.5 * M + 0.2 * M @ M
    np.testing.assert_allclose(walks.features(f).toarray(), expected, atol=1e-14)


def test_blocks_are_smaller_where_heads_leave_more(monkeypatch):
    graph = graphs.karate()
    walks = wk.sample_walks(graph, 8, sampler=UNEQUAL).deposits
    monkeypatch.setattr(storing, "BLOCK_BYTES", 12 * (walks.nodes.size + walks.head.nodes.size) / 4)
    job = FeatureJob(WalkSpec(graph, np.arange(34), 8, UNEQUAL), np.ones(20), (0,))
    assert 7 <= storing.default_block_size(job) <= 10
    assert storing.default_block_size(job.part(0, 0)) == 1
