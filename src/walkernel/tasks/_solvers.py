"""Solvers of linear systems with S = a²ΦΦᵀ + diag(r): a Cholesky factorization, or conjugate gradients.

Both solve the system of the given Φ, without further approximation. The factorization takes n³/3 operations
and n² numbers of memory, and n² operations for each right-hand side; conjugate gradients use only products
with Φ and Φᵀ. Unlike in SciPy's ``cg``, all right-hand sides advance together, because one product of Φ with
sixteen columns takes about as long as four products with one column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from walkernel._door import public_call
from walkernel._threads import thread_count
from walkernel.features import (
    FeatureMatrix,
    HostFeatures,
    gram,
    is_dense_cheaper,
    multiply,
    multiply_transposed,
    row_of_entries,
    squared_norms,
)
from walkernel.operators import normalize_columns
from walkernel.tasks._observations import Array

SOLVERS = ("auto", "cholesky", "cg")
MAX_BLOCK_ENTRIES = 2**25
"""Entries in one block of covariances between observed and other nodes."""
MAX_DIRECT_NODES = 4096
"""Number of nodes up to which ``solver="auto"`` always factorizes S on the CPU."""
MAX_CHOLESKY_NODES = 2**14
"""Number of nodes up to which S is factorized if conjugate gradients would take longer: 2 GiB in all."""
DENSE_SPEED, SPARSE_SPEED = 2e10, 5e8
"""Multiplications per second of a Cholesky factorization and of sparse products, to choose between them."""
Matrix: TypeAlias = Any
"""A dense matrix in double precision where it was computed: an array, or a tensor on a device."""


class CovarianceProducts(NamedTuple):
    """A covariance matrix that is known by its products with (n, c) matrices and by its diagonal.

    ``width`` is the number of floats that a product needs for each column.
    """

    product: Callable[[Matrix], Matrix]
    diagonal: Matrix
    width: int


@dataclass(frozen=True, eq=False)
class Prior(ABC):
    """g ~ N(0, a²K) at observed nodes, and its covariances with other nodes.

    A posterior asks nothing else of a covariance. How nodes are given is up to the subclass: by their rows
    of Φ, or by their positions in an operator.
    """

    observed: Any  # n nodes
    amplitude: float  # a

    @property
    def row_size(self) -> int:
        """Number of floats that the covariances with one other node take."""
        return int(self.observed.shape[0])

    @property
    def product_cost(self) -> int:
        """Multiplications that a product with one column takes."""
        return self.row_size**2

    @property
    def max_direct_nodes(self) -> int:
        """Number of nodes up to which the covariance is always factorized."""
        return MAX_DIRECT_NODES

    @abstractmethod
    def products(self) -> CovarianceProducts:
        """Return the products with the covariance of the observed nodes."""

    @abstractmethod
    def with_nodes(self, nodes: Any) -> Matrix:
        """Return the covariances with other nodes, (n, k)."""

    @abstractmethod
    def variances(self, nodes: Any) -> Array:
        """Return the variances at other nodes, (k,)."""

    @abstractmethod
    def weights_of(self, dual: Array) -> Array:
        """Return what ``values`` needs of a dual solution, (n,) or (n, c)."""

    @abstractmethod
    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Return draws of g at all nodes, as ``values`` takes them."""

    @abstractmethod
    def values(self, nodes: Any, weights: Array) -> Array:
        """Return the covariances of other nodes with the observed ones, times a dual solution."""

    @cached_property
    def covariance(self) -> Matrix:
        """The covariance of the observed nodes, (n, n)."""
        return self.with_nodes(self.observed)

    def direct_solver(self, variances: Array) -> Solver | None:
        """Return a solver of the covariance plus diag(r) that needs no dense matrix, or None."""
        return None

    def covariance_of(self, positions: NDArray[np.int64]) -> Array:
        """Return the covariance of some of the observed nodes, (k, k)."""
        return self.covariance[np.ix_(positions, positions)]

    def blocks(self, nodes: Any) -> Iterator[tuple[slice, Matrix]]:
        """Yield the covariances with other nodes in blocks of columns."""
        size = max(1, MAX_BLOCK_ENTRIES // self.row_size)
        for first in range(0, nodes.shape[0], size):
            part = slice(first, min(first + size, nodes.shape[0]))
            yield part, self.with_nodes(nodes[part])


class FeaturePrior(Prior):
    """g ~ N(0, a²ΦΦᵀ): nodes are given by their rows of Φ, a csr_array, (n, n_nodes)."""

    @property
    def product_cost(self) -> int:
        """Multiplications with Φᵀ and with Φ."""
        return 2 * int(self.observed.nnz)

    def covariance_of(self, positions: NDArray[np.int64]) -> Array:
        """Return the covariance of some of the observed nodes, (k, k)."""
        some = self.observed[positions]
        return self.amplitude**2 * gram(some, some, thread_count(None))

    def products(self) -> CovarianceProducts:
        """Return the products with a²ΦΦᵀ; columns of Φ that no walk reaches are left out."""
        features, threads = self.observed, thread_count(None)
        _, columns = np.unique(features.indices, return_inverse=True)
        shape = (features.shape[0], int(columns.max(initial=0)) + 1)
        scaled = scipy.sparse.csr_array((self.amplitude * features.data, columns, features.indptr), shape)

        def product(V: Array) -> Array:
            return multiply(scaled, multiply_transposed(scaled, V, threads), threads)

        return CovarianceProducts(product, squared_norms(scaled), max(shape))

    def with_nodes(self, nodes: scipy.sparse.csr_array) -> Array:
        """Return a²ΦΦ*ᵀ, (n, k)."""
        return self.amplitude**2 * gram(self.observed, nodes, thread_count(None))

    def variances(self, nodes: scipy.sparse.csr_array) -> Array:
        """Return a²‖φ*‖², (k,)."""
        return self.amplitude**2 * squared_norms(nodes)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Return standard normal weights of the features, times a."""
        return self.amplitude * rng.standard_normal((self.observed.shape[1], n_draws))

    def weights_of(self, dual: Array) -> Array:
        """Return a²Φᵀ times a dual solution: weights of the features."""
        return self.amplitude**2 * np.asarray(self.observed.T @ dual)

    def values(self, nodes: scipy.sparse.csr_array, weights: Array) -> Array:
        """Return Φ* times the weights."""
        return np.asarray(nodes @ weights)


class Solver(ABC):
    """A solver of systems with S."""

    n_iter = 0
    """The largest number of iterations of a solution so far; 0 for a Cholesky factorization."""

    @abstractmethod
    def solve(self, sides: Array) -> Array:
        """Return S⁻¹ B, (n, c)."""

    def best_for(self, n_sides: int) -> Solver:
        """Return the solver that costs least for ``n_sides`` right-hand sides."""
        return self

    def explained(self, sides: Matrix) -> Array:
        """Return Bᵀ S⁻¹ B, (c, c)."""
        sides = as_array(sides)
        return sides.T @ self.solve(sides)

    def explained_diagonal(self, sides: Matrix) -> Array:
        """Return the diagonal of Bᵀ S⁻¹ B, (c,)."""
        sides = as_array(sides)
        return (sides * self.solve(sides)).sum(axis=0)


def directional_slope(
    slope: Matrix, features: FeatureMatrix, n_changes: int
) -> Callable[[FeatureMatrix], float]:
    """Return Ψ ↦ ⟨slope, ΨΦᵀ⟩ for features Ψ of the same nodes, fast if called ``n_changes`` times."""
    own = features.matrix if isinstance(features, HostFeatures) else None
    if own is None or not is_dense_cheaper(own, own, n_changes):
        return lambda change: float((slope * change.gram(features)).sum())
    pulled = slope @ own.toarray()  # (n, n_nodes)

    def product(change: FeatureMatrix) -> float:
        rows = change.to_scipy()
        return float(pulled[row_of_entries(rows), rows.indices] @ rows.data)

    return product


def row_lengths(features: FeatureMatrix) -> Array:
    """Return √K(i, i), (n,): the norms of the rows of Φ; infinite for zero rows, which then stay zero."""
    lengths = np.sqrt(features.squared_norms())
    return np.where(lengths > 0, lengths, np.inf)


def like(matrix: Matrix, array: Matrix) -> Matrix:
    """Return an array where a matrix is: itself, or as a tensor on the device of a tensor."""
    is_there = isinstance(matrix, np.ndarray) or not isinstance(array, np.ndarray)
    return array if is_there else matrix.new_tensor(array)


def as_array(matrix: Matrix) -> Array:
    """Return a matrix in the memory of this process."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.cpu().numpy())


def column_norms(matrix: Matrix) -> Array:
    """Return the norm of each column, (c,)."""
    return as_array((matrix * matrix).sum(axis=0) ** 0.5)


def plus_diagonal(matrix: Matrix, values: Array) -> Matrix:
    """Return a matrix plus diag(values)."""
    if not isinstance(matrix, np.ndarray):
        return matrix + like(matrix, values).diag()
    result = matrix.copy()
    result[np.diag_indices_from(result)] += values
    return result


def factorize(covariance: Matrix, variances: Array) -> CholeskySolver:
    """Return the Cholesky solver of a covariance plus diag(r), which computes where the covariance is."""
    if isinstance(covariance, np.ndarray):
        return CholeskySolver(covariance, variances)
    from walkernel.tasks._device_prior import DeviceCholeskySolver

    return DeviceCholeskySolver(covariance, variances)


class CholeskySolver(Solver):
    """Solves systems with S by its Cholesky factor."""

    def __init__(self, covariance: Array, variances: Array) -> None:
        matrix = plus_diagonal(covariance, variances)
        self.factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, sides: Array) -> Array:
        """Return S⁻¹ B, (n, c)."""
        return np.asarray(scipy.linalg.cho_solve((self.factor, True), sides, check_finite=False))

    def explained(self, sides: Matrix) -> Array:
        """Return Bᵀ S⁻¹ B, (c, c)."""
        half = self._half(sides)
        return as_array(half.T @ half)

    def explained_diagonal(self, sides: Matrix) -> Array:
        """Return the diagonal of Bᵀ S⁻¹ B, (c,)."""
        return as_array((self._half(sides) ** 2).sum(axis=0))

    def log_determinant(self) -> float:
        """Return log det S."""
        return 2 * float(np.log(self.factor.diagonal()).sum())

    def inverse(self) -> Matrix:
        """Return S⁻¹, (n, n)."""
        lower, _ = scipy.linalg.lapack.dpotri(self.factor, lower=1)
        return np.tril(lower) + np.tril(lower, -1).T

    def _half(self, sides: Matrix) -> Matrix:
        return np.asarray(scipy.linalg.solve_triangular(self.factor, sides, lower=True, check_finite=False))


class CGSolver(Solver):
    """Solves systems with S by conjugate gradients, preconditioned with the diagonal of S."""

    def __init__(self, prior: Prior, variances: Array, *, tol: float, max_iter: int) -> None:
        self._tol, self._max_iter = tol, max_iter
        self._product, diagonal, self._width = prior.products()
        self._variances = like(diagonal, variances)[:, None]
        self._diagonal = diagonal[:, None] + self._variances

    def solve(self, sides: Any) -> Any:
        """Return S⁻¹ B, (n, c): an array for an array."""
        if not isinstance(sides, np.ndarray):
            return self._solve_in_blocks(sides)
        scaled, units = normalize_columns(sides)
        return units * as_array(self._solve_in_blocks(like(self._diagonal, scaled)))

    def explained(self, sides: Matrix) -> Array:
        """Return Bᵀ S⁻¹ B, (c, c)."""
        return as_array(sides.T @ self.solve(sides))

    def explained_diagonal(self, sides: Matrix) -> Array:
        """Return the diagonal of Bᵀ S⁻¹ B, (c,)."""
        return as_array((sides * self.solve(sides)).sum(axis=0))

    def _solve_in_blocks(self, sides: Matrix) -> Matrix:
        """Return S⁻¹ B, computed in blocks of columns that fit into memory."""
        size, solution = max(1, MAX_BLOCK_ENTRIES // self._width), 0.0 * sides
        for first in range(0, sides.shape[1], size):
            solution[:, first : first + size] = self._solve(sides[:, first : first + size])
        return solution

    def _solve(self, sides: Matrix) -> Matrix:
        goal = self._tol * column_norms(sides)
        solution = 0.0 * sides
        active = np.flatnonzero(goal > 0)
        x, r = solution[:, active], sides[:, active]
        p = z = r / self._diagonal
        rz = (r * z).sum(axis=0)
        steps = 0
        while active.size:
            if steps == self._max_iter:
                worst = float((column_norms(r) / goal[active]).max()) * self._tol
                raise RuntimeError(
                    f"{public_call()}: conjugate gradients did not reach tol={self._tol:g} in "
                    f"max_iter={self._max_iter} iterations (the relative residual is {worst:.1e}). "
                    "Use a larger max_iter, a larger tol, a narrower kernel, or more noise (a larger alpha)."
                )
            steps += 1
            q = self._product(p) + self._variances * p
            step = rz / (p * q).sum(axis=0)
            x, r = x + step * p, r - step * q
            z = r / self._diagonal
            rz, before = (r * z).sum(axis=0), rz
            p = z + rz / before * p
            done = column_norms(r) <= goal[active]
            if done.any():
                solution[:, active[done]] = x[:, done]
                active, x, r, p, rz = active[~done], x[:, ~done], r[:, ~done], p[:, ~done], rz[~done]
        self.n_iter = max(self.n_iter, steps)
        return solution


class AutoSolver(CGSolver):
    """Conjugate gradients, or a Cholesky factorization where many right-hand sides make it cheaper.

    It is one of ``n_systems`` systems that may be factorized at the same time.
    """

    _cholesky: CholeskySolver | None = None

    def __init__(self, prior: Prior, variances: Array, *, tol: float, max_iter: int, n_systems: int) -> None:
        super().__init__(prior, variances, tol=tol, max_iter=max_iter)
        self._prior, self._n_systems = prior, n_systems

    def best_for(self, n_sides: int) -> Solver:
        """Return a Cholesky solver if it costs less, judged by the iterations used so far."""
        n = len(self._variances)
        cg_seconds = n_sides * max(self.n_iter, 10) * self._prior.product_cost / SPARSE_SPEED
        cholesky_seconds = (n**3 / 3 + n**2 * n_sides / 2) / DENSE_SPEED
        fits = self._n_systems * n**2 <= MAX_CHOLESKY_NODES**2
        if self._cholesky is None and fits and cholesky_seconds < cg_seconds:
            self._cholesky = factorize(self._prior.covariance, as_array(self._variances[:, 0]))
        return self._cholesky or self


def cholesky_solver(prior: Prior, variances: Array) -> CholeskySolver:
    """Return the Cholesky solver of the covariance of a prior plus diag(r).

    Where rounding leaves no Cholesky factor, a share of the variance is added, as little as suffices.
    """
    unit = float(as_array(prior.covariance.diagonal()).mean())
    for share in (0.0, *10.0 ** np.arange(-12, -3)):
        try:
            return factorize(prior.covariance, variances + share * unit)
        except np.linalg.LinAlgError:
            continue
    return factorize(prior.covariance, variances + 1e-3 * unit)


def make_solver(
    prior: Prior, variances: Array, *, solver: str, tol: float, max_iter: int, n_systems: int = 1
) -> Solver:
    """Return a solver of a²ΦΦᵀ + diag(r), one of ``n_systems`` systems, by its name."""
    direct = prior.direct_solver(variances) if solver == "auto" else None
    if direct is not None:
        return direct
    n = variances.size
    small = n <= prior.max_direct_nodes and n_systems * n**2 <= MAX_CHOLESKY_NODES**2
    if solver == "cholesky" or (solver == "auto" and small):
        return cholesky_solver(prior, variances)
    if solver == "cg":
        return CGSolver(prior, variances, tol=tol, max_iter=max_iter)
    return AutoSolver(prior, variances, tol=tol, max_iter=max_iter, n_systems=n_systems)
