"""Return probabilities by signs and by walks: unbiased, with intervals that cover, and twins that fail."""

from dataclasses import dataclass, replace

import networkx
import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

import graphs
import walkernel as wk
from walkernel.engines import CPU
from walkernel.features import HostRecord
from walkernel.operators._returns import Returns

LENGTH, REPEATS = 12, 60
LEVEL = 1e-6
"""Probability that the largest of all z-scores is beyond its limit where there is no bias."""


def estimates(graph, name, *, limit, n_samples=64, repeats=REPEATS, engine=None):
    """Return values and standard errors, (repeats, nodes, length), of the truth beyond so many edges."""
    found = []
    for seed in range(repeats):
        returns = Returns(graph, np.arange(graph.n_nodes), LENGTH, n_samples, seed, engine or CPU())
        value, stderr = np.zeros((2, graph.n_nodes, LENGTH))
        found.append(getattr(returns, name)(returns._follow(limit, value), value, stderr))
    return (np.array([getattr(one, part) for one in found]) for part in ("value", "stderr", "rare"))


def truth(graph):
    return Returns(graph, np.arange(graph.n_nodes), LENGTH, 64, 0, CPU())._by_columns(
        np.arange(graph.n_nodes)
    )


def is_unbiased(values, exact):
    """Tell whether no mean is beyond its limit, and none is off that does not vary."""
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    error = np.abs(values.mean(axis=0) - exact)
    varies = spread > 1e-14
    z = error[varies] / spread[varies]
    return bool((error[~varies] < 1e-12).all() and z.max() < norm.isf(LEVEL / (2 * z.size)))


@dataclass(frozen=True)
class WithoutDegrees(CPU):
    """Loads are forgotten: those of the normalized matrix are √(d_start / d_here)."""

    def walks(self, spec, progress=None):
        walks = super().walks(spec, progress)
        deposits = walks.deposits._replace(loads=np.ones_like(walks.deposits.loads))
        return replace(walks, record=HostRecord(deposits, spec.n_walks, spec.graph.n_nodes))


def row_twice(self, matrices, V):
    """Multiply rows with rows: those of odd lengths are one step too long."""
    M, row = matrices[1], V
    for k in range(1, self.length + 1):
        row = M @ row if k % 2 else row
        yield row, row


@pytest.mark.parametrize("limit", [0, 60])
@pytest.mark.parametrize("kind", ["weighted", "directed", "self-loops"])
def test_walks_are_unbiased(kind, limit):
    graph = graphs.KINDS[kind]()
    values, _, _ = estimates(graph, "_by_walks", limit=limit)
    assert values.std(axis=0).max() > 1e-3
    assert is_unbiased(values, truth(graph))


@pytest.mark.parametrize("kind", ["weighted", "directed"])
def test_signs_are_unbiased(kind):
    graph = graphs.KINDS[kind]()
    values, _, _ = estimates(graph, "_by_signs", limit=10)
    assert values.std(axis=0).max() > 1e-3
    assert is_unbiased(values, truth(graph))


def test_sabotaged_estimates_are_found_biased(monkeypatch):
    graph = graphs.weighted()
    values, _, _ = estimates(graph, "_by_walks", limit=60, engine=WithoutDegrees())
    assert not is_unbiased(values, truth(graph))
    monkeypatch.setattr(Returns, "_products", row_twice)
    values, _, _ = estimates(graph, "_by_signs", limit=10)
    assert not is_unbiased(values, truth(graph))


def large(directed):
    """Return 600 nodes of uneven degrees and weights: errors by the same signs are hardly correlated."""
    rng = np.random.default_rng(7)
    A = networkx.to_numpy_array(networkx.barabasi_albert_graph(600, 3, seed=7))
    upper = np.triu(A * rng.lognormal(0, 0.5, A.shape))
    A = A * (rng.random(A.shape) < 0.7) * rng.lognormal(0, 0.5, A.shape) if directed else upper + upper.T
    return wk.Graph.from_scipy(A)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ["_by_walks", "_by_signs"])
def test_intervals_cover(name, directed):
    """93–97 % pooled over nodes, lengths and ten samples; with errors of two thirds: below 90 %."""
    graph = large(directed)
    values, errors, rare = estimates(graph, name, limit=60, n_samples=256, repeats=10)
    judged = (errors > 0) & ~rare
    assert judged.sum() > 5000
    off, wide = np.abs(values - truth(graph)), student.isf(0.025, 15)
    assert 0.93 < (off <= wide * errors)[judged].mean() < 0.97
    assert (off <= 2 / 3 * wide * errors)[judged].mean() < 0.90
