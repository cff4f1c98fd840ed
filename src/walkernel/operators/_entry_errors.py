"""Estimates with error bars, and what rounding and the kernel itself say of entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from walkernel._checks import real_number
from walkernel._html import html_table
from walkernel.features import find_series, largest_norm
from walkernel.operators._groups import ROUNDING, Groups

MAX_RELATIVE_ERROR = 1 / 3
"""Above it, an entry is marked as rare: its distribution is too skew for an interval about the estimate."""
ROUNDING_OF_ENTRIES = 5e-15
"""Differences that are taken for rounding, relative to the norm of K: dense matrix functions of float64
numbers differ by up to 1e-14 times that, depending on how they are computed."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates with their standard errors; unpacks as ``value, stderr``.

    Attributes
    ----------
    value : ndarray of float64
        The estimates.
    stderr : ndarray of float64
        Their standard errors, in the unit of the values and of the same shape; 0 where nothing is random.
    n_groups : int
        Independent groups of walks behind the standard errors; 0 if nothing is random.
    rare : ndarray of bool
        Entries that too few walks contribute to for an interval to say much: the standard error is more than
        a third of the value, or no walk of the lengths that matter leads from one node to the other although
        longer ones may. On graphs of more than 4096 nodes, of which only the part is looked at that the walks
        of both nodes reached, also those on which a third of the groups of walks agree exactly, although
        walks could add a third of the value. Products have none, as walks from all nodes contribute to them.
    limit : ndarray of float64
        What the kernel itself allows rare entries at most; 0 for others.

    Examples
    --------
    >>> import walkernel as wk
    >>> path = wk.Graph.from_edges([(i, i + 1) for i in range(40)])
    >>> K = wk.estimate_kernel(path, wk.Diffusion(1.0), n_walks=64)
    >>> far = K.estimate(0, [1, 30])  # no walk meets one from 30 steps away, nor could they add much
    >>> far.rare, bool(0 < far.upper[1] < 1e-9)
    (array([False,  True]), True)
    """

    value: NDArray[np.float64]
    stderr: NDArray[np.float64]
    n_groups: int
    rare: NDArray[np.bool_] = None  # type: ignore[assignment]  # none are, if not given
    limit: NDArray[np.float64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.rare is None:
            object.__setattr__(self, "rare", np.zeros(self.value.shape, dtype=bool))
        if self.limit is None:
            object.__setattr__(self, "limit", np.zeros(self.value.shape))

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        return iter((self.value, self.stderr))

    def _repr_html_(self) -> str:
        columns = ["position"] * (self.value.ndim > 0) + ["value", "standard error"]
        columns += ["too few walks"] * bool(self.rare.any())

        def row(index: tuple[int, ...]) -> tuple[object, ...]:
            position = (", ".join(map(str, index)),) * (self.value.ndim > 0)
            rare = ("yes" * bool(self.rare[index]),) * bool(self.rare.any())
            return *position, float(self.value[index]), f"± {self.stderr[index]:.2g}", *rare

        title = f"Estimates from {self.n_groups} groups of walks"
        return html_table(title, columns, map(row, np.ndindex(self.value.shape)), self.value.size)

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of confidence intervals, by Student's t with n_groups − 1 degrees of freedom.

        Of entries that are not rare, 95 % intervals cover at least 90 % on all graphs, kernels and kinds of
        walks in ``benchmarks/interval_coverage.py``, and more than 95 % where edges of very different weights
        leave much to a few walks: error bars are then those of the worst case.

        Parameters
        ----------
        level : float in (0, 1)
            Probability that an interval covers the value of infinitely many walks.

        Returns
        -------
        low, high : ndarray of float64
            The ends, of the shape of ``value`` each.

        Examples
        --------
        >>> import walkernel as wk
        >>> K = wk.estimate_kernel(wk.load_dataset("karate").graph, wk.Diffusion(1.0), n_walks=256)
        >>> low, high = K.estimate(0, 1).interval(0.95)
        >>> bool(low < high)
        True
        """
        level = real_number("level", level, above=0, below=1)
        wide = 0.0 if self.n_groups == 0 else float(stdtrit(self.n_groups - 1, (1 + level) / 2))
        return self.value - wide * self.stderr, self.value + wide * self.stderr

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bounds of the estimated values: the upper ends of 95 % intervals, and more for rare entries.

        Rare entries, of which an interval says little, get no less than what the kernel itself allows:
        √(K_ii K_jj) for a symmetric pair on a symmetric matrix, with 97.5 % upper bounds of both diagonal
        entries; otherwise, and for products of factors, a norm of K, or infinity where no bound on it is
        known; or less, if walks can add but little beyond an exact head. That holds for every entry, whether
        or not walks went there, and is mostly far above it.
        """
        above = self.interval()[1]
        return np.asarray(np.where(self.rare, np.maximum(above, self.limit), above))


def with_rounding(
    errors: NDArray[np.float64], values: NDArray[np.float64], groups: Groups
) -> NDArray[np.float64]:
    """Return error bars of entries that are at least those of rounding, but for entries that are zero."""
    largest = largest_norm(groups.left.graph, groups.weights.kernel)
    rounding = ROUNDING_OF_ENTRIES * largest if np.isfinite(largest) else 0.0
    return np.where(values != 0, np.maximum(errors, rounding), errors)


def largest_rest(groups: Groups) -> float:
    """Return a bound on what walks can add to an entry beyond the exact heads; infinity if none is known.

    With H the head, T what is beyond it, η = Σ_{k≤r} |f_k| and τ = Σ_{k>r} |f_k| bound their norms, and
    K = (H + T)(H + T)ᵀ differs from HHᵀ by at most 2ητ + τ²; for the lazy pair K = H + T, by τ. The norm of
    the random-walk matrix that is at most one is the maximum norm, which bounds entries too.
    """
    kernel = groups.weights.kernel
    if kernel.matrix == "adjacency" or (groups.left.graph.directed and kernel.matrix == "combinatorial"):
        return np.inf
    series = find_series(kernel, groups.weights.exponent, 1.0, ROUNDING)
    head, rest = np.split(series.sizes, [groups.left.sampler.exact_hops + 1])
    tail = float(rest.sum()) + series.missing
    return tail if groups.weights.other is None else 2 * float(head.sum()) * tail + tail**2
