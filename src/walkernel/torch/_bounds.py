"""Theorem 2.3 and its corollary for a learned kernel on a given graph."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from walkernel._checks import MATRICES, check_instance, one_of, real_number, whole_number
from walkernel.features import spectral_radius
from walkernel.graph import Graph
from walkernel.theory import rademacher_bound
from walkernel.torch._modulation import ModulationBase, check_modulation


class Bounds(NamedTuple):
    """How much a learned kernel can overfit.

    ``complexity`` is Theorem 2.3's bound on the empirical Rademacher complexity of its unit ball, with
    ``αᵢ^(M) = |αᵢ|``; ``gap`` is an upper bound of the true error minus the margin loss, with probability
    1 − δ (appendix A.4).
    """

    complexity: float
    gap: float
    spectral_radius: float
    n_samples: int
    margin: float
    delta: float

    def report(self) -> str:
        """Return a description of the bounds."""
        return (
            f"Theorem 2.3 with ρ = {self.spectral_radius:.3g} and {self.n_samples} nodes: Rademacher "
            f"complexity at most {self.complexity:.4g}; error at most margin loss + {self.gap:.4g} (margin "
            f"{self.margin:g}, δ = {self.delta:g})."
        )


def learned_bounds(
    modulation: ModulationBase,
    graph: Graph,
    n_samples: int,
    *,
    matrix: str = "normalized",
    margin: float = 1.0,
    delta: float = 0.05,
    length: int | None = None,
) -> Bounds:
    """Return Theorem 2.3's bound and its corollary's for a learned modulation.

    Parameters
    ----------
    modulation : modulation
        The learned modulation; α = f₁ * f₂.
    graph : Graph
        The graph, of which the spectral radius of M is used.
    n_samples : int
        Number of training nodes.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M.
    margin, delta : float
        The margin of the loss, and the probability that the bound fails.
    length : int, optional
        Number of terms of f; as many as are not negligible if not given.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import FreeModulation, learned_bounds
    >>> karate = wk.load_dataset("karate").graph
    >>> round(learned_bounds(FreeModulation([1.0, 0.5]), karate, n_samples=34).complexity, 3)
    0.257
    """
    check_modulation(modulation)
    check_instance("graph", graph, Graph)
    m = whole_number("n_samples", n_samples, 1)
    margin = real_number("margin", margin, above=0)
    delta = real_number("delta", delta, above=0, below=1)
    rho = spectral_radius(graph, one_of("matrix", matrix, MATRICES))
    n_terms = modulation.n_terms() if length is None else whole_number("length", length, 1)
    first, second = (side.detach().cpu().double().numpy() for side in modulation.sides(n_terms))
    alpha = np.abs(np.convolve(first, second))
    complexity = rademacher_bound(alpha, rho, m)
    gap = 2 / margin * complexity + 3 * math.sqrt(math.log(2 / delta) / (2 * m))
    return Bounds(complexity, gap, rho, m, margin, delta)
