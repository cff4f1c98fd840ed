"""How far K̂ is from K: its relative Frobenius error, from the spread of groups of walks.

The squared error ‖K̂ − K‖² is a sum over columns, ‖(K̂ − K) B‖² for any B with B Bᵀ = I, and so is ‖K̂‖². Where
the kernel has few columns, B = I. Otherwise B = [Q, P V / √c], with Q an orthonormal basis of a few
directions in which K̂ is largest, P = I − QQᵀ, and V of c columns of random signs, so that E[B Bᵀ] = I: signs
alone tell little of a wide kernel, nearly all of which lies in one direction. Then

    A = Σ_b var(K̂ b),   by the jackknife over groups of walks to first order (``_groups``),
    T = Σ_b var(product of the errors of both sides), which A has twice,

and the squared error is A − T, the squared norm of K is ‖K̂ B‖² − (A − T), or n times the square of the
kernel's largest value if that is less. T depends on the squares of the entries of b alone, since walks from
different nodes are independent, so that any few columns of signs have it. With n times the walks, A − 2T is
n times smaller and T n² times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from walkernel.features import largest_norm
from walkernel.operators._groups import normalize_columns, root_sum_of_squares, standard_errors
from walkernel.planning import Accuracy

if TYPE_CHECKING:
    from walkernel.operators._walk import WalkOperator

MAX_TIMES = 1e100
"""How many times the norm of its estimate a kernel's norm may be, lest its square overflow."""
ENTRIES, MIN_COLUMNS, MAX_COLUMNS = 2**13, 4, 64
"""Entries of B, about, and its columns: fewer for larger graphs."""
ENTRIES_REACHED = 2**22
"""Columns of B times nodes that the walks reach, of which there are many even if those of K are few."""
ENTRIES_OF_T, MIN_OF_T = 2**10, 2
"""The same for the signs that T is taken from."""


def accuracy(K: WalkOperator) -> Accuracy:
    """Return how far an operator made of walks is from the kernel; its walks are walked again."""
    n = K.shape[0]
    reached = max(1, *(factor.left.shape[1] for factor in K.factors))
    columns = max(MIN_COLUMNS, min(MAX_COLUMNS, ENTRIES // n, ENTRIES_REACHED // reached))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, columns))
    probes = _probes(K, signs)
    norm = float(root_sum_of_squares(K._matmat(probes), None))
    deviations, _ = K.deviations(probes)
    spread = float(standard_errors(deviations, axis=None))
    doubled = _second_order(K, signs)
    unit = norm or max(spread, doubled) or 1.0
    signal, variance, twice = (norm / unit) ** 2, (spread / unit) ** 2, (doubled / unit) ** 2
    once = variance - 2 * twice
    if once < 0:  # then A and 2T are estimates of the same
        once, twice = 0.0, (variance / 2 + twice) / 2
    largest = n * min(largest_norm(K.graph, K.kernel) / unit, MAX_TIMES) ** 2
    return Accuracy(
        once, twice, min(signal - once - twice, largest), _freedom(deviations), deviations.shape[-1]
    )


def _freedom(deviations: NDArray[np.float64]) -> float:
    """Return (tr C)² / tr C² of the errors' covariance C, from deviations of groups along the last axis.

    Of G groups, tr S² of the sample covariance S is larger than tr C² by about (tr C)² / (G − 1).
    """
    groups = deviations.shape[-1]
    size = np.abs(deviations).max(initial=0.0)
    if groups < 3 or not 0 < size < np.inf:
        return 1.0
    flat = (deviations / size).reshape(-1, groups)
    products = flat.T @ flat / (groups - 1)
    trace, squares = np.trace(products), np.square(products).sum()
    squares -= trace**2 / (groups - 1)
    squares *= (groups - 1) ** 2 / ((groups - 2) * (groups + 1))
    most = flat.shape[0]
    return float(np.clip(trace**2 / squares, 1.0, most)) if squares > 0 else float(most)


def _probes(K: WalkOperator, signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return B: the unit vectors if there are no more columns, else the largest directions and signs."""
    n, columns = signs.shape
    if n <= columns:
        return np.eye(n)
    largest, rest = signs[:, : columns // 2], signs[:, columns // 2 :]
    image, _ = normalize_columns(K._matmat(largest))
    Q, _ = np.linalg.qr(normalize_columns(K._transpose()._matmat(image))[0])
    return np.hstack([Q, (rest - Q @ (Q.T @ rest)) / np.sqrt(rest.shape[1])])


def _second_order(K: WalkOperator, signs: NDArray[np.float64]) -> float:
    """Return √T; 0 for products of factors, of which it is not known."""
    if K.stitches > 1:
        return 0.0
    few = np.ascontiguousarray(signs[:, : max(MIN_OF_T, ENTRIES_OF_T // K.shape[0])])
    _, doubled = K.deviations(few, second_order=True)
    return float(root_sum_of_squares(doubled, None) / np.sqrt(few.shape[1]))
