"""Systems S = a²ΦΦᵀ + diag(r), solved exactly: by a Cholesky factor, or by conjugate gradients.

Both are exact for the Φ at hand. The factor costs n³/3 and n² numbers, and then n² for each right-hand side;
conjugate gradients use Φ and Φᵀ alone. All right-hand sides advance together, unlike in SciPy's solver,
because a pass over Φ costs about as much for sixteen columns as for four columns one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import thread_count
from walkernel.operators import of_size_one
from walkernel.products import multiply, multiply_transposed
from walkernel.tasks._observations import Array

SOLVERS = ("auto", "cholesky", "cg")
MOST_DENSE = 2**26
"""Numbers of features that may be stored as dense arrays."""
MOST_AT_ONCE = 2**25
"""Numbers in a block of covariances between observed and other nodes."""
MOST_DIRECT = 4096
"""Nodes up to which S is factorised at once."""
MOST_FACTORIZED = 2**14
"""Nodes up to which it is factorised where conjugate gradients would take longer: 2 GiB for all factors."""
DENSE_SPEED, SPARSE_SPEED = 2e10, 5e8
"""Multiplications in a second of a Cholesky factor and of sparse products, for the choice between them."""


class Multiplier(NamedTuple):
    """A covariance matrix by its products: with (n, c) arrays, its diagonal, numbers in use for a column."""

    product: Callable[[Array], Array]
    diagonal: Array
    width: int


class Multiplied(Protocol):
    """A prior whose covariance is known by products."""

    def multiplier(self) -> Multiplier:
        """Return them."""


class Prior:
    """g ~ N(0, a²ΦΦᵀ) at the observed nodes.

    Parameters
    ----------
    features : csr_array, (n, n_nodes)
        Φ of the observed nodes.
    amplitude : float
        a.
    """

    def __init__(self, features: scipy.sparse.csr_array, amplitude: float) -> None:
        self.features, self.amplitude = features, amplitude

    @cached_property
    def covariance(self) -> Array:
        """a²ΦΦᵀ, (n, n)."""
        return self.with_nodes(self.features)

    def multiplier(self) -> Multiplier:
        """Return products with a²ΦΦᵀ, columns that no walk reaches left out."""
        features, threads = self.features, thread_count("Prior", None)
        _, columns = np.unique(features.indices, return_inverse=True)
        shape = (features.shape[0], int(columns.max(initial=0)) + 1)
        scaled = scipy.sparse.csr_array((self.amplitude * features.data, columns, features.indptr), shape)

        def product(V: Array) -> Array:
            return multiply(scaled, multiply_transposed(scaled, V, threads), threads)

        return Multiplier(product, np.asarray(scaled.power(2).sum(axis=1)), max(shape))

    def with_nodes(self, rows: scipy.sparse.csr_array) -> Array:
        """Return the covariances with other nodes, (n, k)."""
        return self.amplitude**2 * gram(self.features, rows)

    def variances(self, rows: scipy.sparse.csr_array) -> Array:
        """Return the variances at other nodes, (k,)."""
        return self.amplitude**2 * np.asarray(rows.power(2).sum(axis=1))

    def blocks(self, rows: scipy.sparse.csr_array) -> Iterator[tuple[slice, Array]]:
        """Give the covariances with other nodes in blocks of columns."""
        size = max(1, MOST_AT_ONCE // self.features.shape[0])
        for first in range(0, rows.shape[0], size):
            part = slice(first, min(first + size, rows.shape[0]))
            yield part, self.with_nodes(rows[part])


class Covariance(Protocol):
    """S, as far as posteriors need it."""

    n_iter: int
    """Iterations of the longest solution so far; 0 for a factor."""

    def suited(self, n_sides: int) -> Covariance:
        """Return what solves for so many right-hand sides at the least cost."""

    def solve(self, sides: Array) -> Array:
        """Return S⁻¹ B, (n, c)."""

    def explained(self, sides: Array) -> Array:
        """Return Bᵀ S⁻¹ B, (c, c)."""

    def explained_diagonal(self, sides: Array) -> Array:
        """Return the diagonal of Bᵀ S⁻¹ B, (c,)."""


def gram(left: scipy.sparse.csr_array, right: scipy.sparse.csr_array) -> Array:
    """Return Φ₁Φ₂ᵀ as an array, of sparse or of dense factors, whichever costs less."""
    if _better_dense(left, right, 1):
        return np.asarray(left.toarray() @ right.toarray().T)
    return np.asarray((left @ right.T).toarray())


def _better_dense(left: scipy.sparse.csr_array, right: scipy.sparse.csr_array, n_products: int) -> bool:
    """Tell whether one product of dense factors costs less than so many Φ₁Φ₂ᵀ of sparse ones."""
    (n, n_columns), m = left.shape, right.shape[0]
    visits = [np.bincount(side.indices, minlength=n_columns).astype(float) for side in (left, right)]
    meetings = n_products * (visits[0] @ visits[1])
    return bool(
        (n + m) * n_columns <= MOST_DENSE and n * m * n_columns / DENSE_SPEED < meetings / SPARSE_SPEED
    )


def along(
    slope: Array, features: scipy.sparse.csr_array, n_changes: int
) -> Callable[[scipy.sparse.csr_array], float]:
    """Return what gives ⟨slope, ΨΦᵀ⟩ for features Ψ of the same nodes; one product may serve many."""
    if not _better_dense(features, features, n_changes):
        return lambda change: float(np.sum(slope * gram(change, features)))
    pulled = slope @ features.toarray()  # (n, n_nodes)

    def product(change: scipy.sparse.csr_array) -> float:
        return float(pulled[row_of_entries(change), change.indices] @ change.data)

    return product


def row_of_entries(features: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """Return which row each stored number is in."""
    return np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))


def scaled_rows(features: scipy.sparse.csr_array, factors: Array) -> scipy.sparse.csr_array:
    """Return diag(factors) Φ."""
    data = features.data * factors[row_of_entries(features)]
    return scipy.sparse.csr_array((data, features.indices, features.indptr), features.shape)


def row_lengths(features: scipy.sparse.csr_array) -> Array:
    """Return √K(i, i), (n,): the lengths of the rows of Φ; infinite where a row is zero and stays it."""
    lengths = np.sqrt(np.asarray(features.power(2).sum(axis=1)))
    return np.where(lengths > 0, lengths, np.inf)


class Factorized:
    """S by its Cholesky factor."""

    n_iter = 0

    def __init__(self, covariance: Array, variances: Array) -> None:
        matrix = covariance.copy()
        matrix[np.diag_indices(len(matrix))] += variances
        self.factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    def suited(self, n_sides: int) -> Covariance:
        """Return the same."""
        return self

    def solve(self, sides: Array) -> Array:
        """Return S⁻¹ B, (n, c)."""
        return np.asarray(scipy.linalg.cho_solve((self.factor, True), sides, check_finite=False))

    def explained(self, sides: Array) -> Array:
        """Return Bᵀ S⁻¹ B, (c, c)."""
        half = self._half(sides)
        return half.T @ half

    def explained_diagonal(self, sides: Array) -> Array:
        """Return the diagonal of Bᵀ S⁻¹ B, (c,)."""
        return (self._half(sides) ** 2).sum(axis=0)

    def log_determinant(self) -> float:
        """Return log det S."""
        return 2 * float(np.log(self.factor.diagonal()).sum())

    def inverse(self) -> Array:
        """Return S⁻¹, (n, n)."""
        lower, _ = scipy.linalg.lapack.dpotri(self.factor, lower=1)
        return np.tril(lower) + np.tril(lower, -1).T

    def _half(self, sides: Array) -> Array:
        return np.asarray(scipy.linalg.solve_triangular(self.factor, sides, lower=True, check_finite=False))


class Iterated:
    """S by conjugate gradients, preconditioned by its diagonal."""

    def __init__(self, prior: Multiplied, variances: Array, *, owner: str, tol: float, max_iter: int) -> None:
        self.n_iter = 0
        self._owner, self._tol, self._max_iter = owner, tol, max_iter
        self._product, diagonal, self._width = prior.multiplier()
        self._variances = variances[:, None]
        self._diagonal = diagonal[:, None] + self._variances

    def suited(self, n_sides: int) -> Covariance:
        """Return the same."""
        return self

    def _multiply(self, V: Array) -> Array:
        """Return S V."""
        return self._product(V) + self._variances * V

    def solve(self, sides: Array) -> Array:
        """Return S⁻¹ B, (n, c), in blocks of columns that fit into memory with Φᵀ of them."""
        size = max(1, MOST_AT_ONCE // self._width)
        scaled, units = of_size_one(sides)
        parts = [self._solve(scaled[:, i : i + size]) for i in range(0, sides.shape[1], size)]
        return units * (parts[0] if len(parts) == 1 else np.hstack(parts))

    def _solve(self, sides: Array) -> Array:
        goal = self._tol * np.linalg.norm(sides, axis=0)
        solution = np.zeros_like(sides)
        left = np.flatnonzero(goal > 0)
        x, r = solution[:, left], sides[:, left]
        p = z = r / self._diagonal
        rz = (r * z).sum(axis=0)
        steps = 0
        while left.size:
            if steps == self._max_iter:
                worst = float((np.linalg.norm(r, axis=0) / goal[left]).max()) * self._tol
                raise RuntimeError(
                    f"{self._owner}: conjugate gradients did not reach tol={self._tol:g} in "
                    f"max_iter={self._max_iter} steps (they reached {worst:.1e}). Use more steps, a larger "
                    "tol, a narrower kernel, or more noise (a larger alpha)."
                )
            steps += 1
            q = self._multiply(p)
            step = rz / (p * q).sum(axis=0)
            x, r = x + step * p, r - step * q
            z = r / self._diagonal
            rz, before = (r * z).sum(axis=0), rz
            p = z + rz / before * p
            ended = np.linalg.norm(r, axis=0) <= goal[left]
            if ended.any():
                solution[:, left[ended]] = x[:, ended]
                left, x, r, p, rz = left[~ended], x[:, ~ended], r[:, ~ended], p[:, ~ended], rz[~ended]
        self.n_iter = max(self.n_iter, steps)
        return solution

    def explained(self, sides: Array) -> Array:
        """Return Bᵀ S⁻¹ B, (c, c)."""
        return sides.T @ self.solve(sides)

    def explained_diagonal(self, sides: Array) -> Array:
        """Return the diagonal of Bᵀ S⁻¹ B, (c,)."""
        return (sides * self.solve(sides)).sum(axis=0)


class Chosen(Iterated):
    """S by conjugate gradients, until there are so many right-hand sides that a factor costs less."""

    n_systems = 1
    """Systems that may be factorised at the same time."""
    _factorized: Factorized | None = None

    def __init__(self, prior: Prior, variances: Array, *, owner: str, tol: float, max_iter: int) -> None:
        super().__init__(prior, variances, owner=owner, tol=tol, max_iter=max_iter)
        self._prior = prior

    def suited(self, n_sides: int) -> Covariance:
        """Return a factor if it costs less, by the iterations used so far."""
        n = self._variances.size
        iterated = n_sides * max(self.n_iter, 10) * 2 * self._prior.features.nnz / SPARSE_SPEED
        factorized = (n**3 / 3 + n**2 * n_sides / 2) / DENSE_SPEED
        fits = self.n_systems * n**2 <= MOST_FACTORIZED**2
        if self._factorized is None and fits and factorized < iterated:
            self._factorized = Factorized(self._prior.covariance, self._variances[:, 0])
        return self._factorized or self


def factorized(prior: Prior, variances: Array) -> Factorized:
    """Return a²ΦΦᵀ + diag(r) by its factor."""
    return Factorized(prior.covariance, variances)


def make_system(
    prior: Prior, variances: Array, *, solver: str, owner: str, tol: float, max_iter: int, n_systems: int = 1
) -> Covariance:
    """Return a²ΦΦᵀ + diag(r), one of so many systems, with the solver that was asked for."""
    small = variances.size <= MOST_DIRECT and n_systems * variances.size**2 <= MOST_FACTORIZED**2
    if solver == "cholesky" or (solver == "auto" and small):
        return factorized(prior, variances)
    if solver == "cg":
        return Iterated(prior, variances, owner=owner, tol=tol, max_iter=max_iter)
    chosen = Chosen(prior, variances, owner=owner, tol=tol, max_iter=max_iter)
    chosen.n_systems = n_systems
    return chosen
