"""What an operator is made of, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """What ``K.explain()`` returns; it prints as sentences.

    Attributes
    ----------
    text : str
        The sentences, one on each line.
    n_steps : int
        Steps walked, and edges that exact heads followed.
    n_bytes : int
        Memory of the operator.
    error : float or None
        Relative error ‖K̂ − K‖/‖K‖ in the Frobenius norm: estimated from the spread of groups of walks, or a
        bound for a deterministic engine; infinite where the spread drowns the kernel, None where there are
        fewer than two groups.
    polynomial_products : int or None
        Sparse products that ``polynomial_operator`` needs for K @ v to that error, or to 0.1 if it is not
        known; None where it would take more than it allows.
    """

    text: str
    n_steps: int
    n_bytes: int
    error: float | None
    polynomial_products: int | None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def megabytes(n_bytes: int) -> str:
    """Return a number of bytes for people."""
    return f"{n_bytes / 2**20:.3g} MiB"
