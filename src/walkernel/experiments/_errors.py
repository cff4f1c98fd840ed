"""Errors of estimated kernels, both as the paper writes them and as it prints them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.engines import sample_walks
from walkernel.features import Walks
from walkernel.graph import Graph
from walkernel.walks import IndependentWalks


class Ensembles(NamedTuple):
    """Walks of the rows and of the columns of K̂; the same ones if the ensembles are shared."""

    left: Walks
    right: Walks

    def estimate(self, kernel_or_f: Any) -> NDArray[np.float64]:
        """Return K̂ as a dense matrix."""
        left = self.left.features(kernel_or_f)
        right = left if self.right is self.left else self.right.features(kernel_or_f)
        if left.nnz > 0.05 * left.shape[0] * left.shape[1]:
            return left.toarray() @ right.toarray().T
        return (left @ right.T).toarray()


def draw_walks(graph: Graph, n_walks: int, p_halt: float, seed: int, ensembles: str) -> Ensembles:
    """Return the paper's walks: one set if they are shared, two if they are independent."""
    streams = (0,) if ensembles == "shared" else (0, 1)
    sampler = IndependentWalks(p_halt)
    walks = [sample_walks(graph, n_walks, sampler=sampler, seed=seed, stream=stream) for stream in streams]
    return Ensembles(walks[0], walks[-1])


def squared_error(estimate: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """Return ‖K̂ − K‖²_F / ‖K‖²_F."""
    return float(((estimate - exact) ** 2).sum() / (exact**2).sum())
