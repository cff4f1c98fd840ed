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
    r"""How much a learned kernel can overfit, by Theorem 2.3 and its corollary.

    .. math:: \mathcal{R} \le \sqrt{\frac{1}{m} \sum_i |\alpha_i| \rho^i}, \qquad
        \text{gap} = \frac{2}{\text{margin}} \mathcal{R} + 3 \sqrt{\frac{\log(2 / \delta)}{2m}}

    Attributes
    ----------
    complexity : float
        Theorem 2.3's bound ℛ on the empirical Rademacher complexity of the unit ball of the kernel.
    gap : float
        Upper bound of the true error minus the margin loss, with probability 1 − δ (appendix A.4).
    spectral_radius : float
        ρ, that of the matrix of the graph.
    n_samples : int
        m, the number of training nodes.
    margin : float
        The margin of the loss, in the unit of the scores.
    delta : float
        δ, the probability that the bound fails.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import FreeModulation, learned_bounds
    >>> bounds = learned_bounds(FreeModulation([1.0, 0.5]), wk.load_dataset("karate").graph, n_samples=34)
    >>> bounds.spectral_radius, round(bounds.complexity, 3)
    (1.0, 0.257)
    """

    complexity: float
    gap: float
    spectral_radius: float
    n_samples: int
    margin: float
    delta: float

    def report(self) -> str:
        """Return a description of the bounds.

        Returns
        -------
        str
            Sentences with the numbers.
        """
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
    """Return how much a learned modulation function can overfit: Theorem 2.3's bound and its corollary's.

    Parameters
    ----------
    modulation : NeuralModulation, FreeModulation or ModulationPair
        The learned modulation function; α = f₁ * f₂.
    graph : Graph
        The graph, of which the spectral radius of M is used.
    n_samples : int
        Number of training nodes.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M.
    margin : float
        The margin of the loss, in the unit of the scores.
    delta : float in (0, 1)
        δ, the probability that the bound fails.
    length : int, optional
        Number of terms of f; as many as are not negligible if not given.

    Returns
    -------
    Bounds
        The bounds, and what they were computed from.

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
