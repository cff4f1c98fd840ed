"""Gaussian processes whose features are on a device: dense matrices and their factors stay there.

Matrices of n × n and n × k numbers are tensors in double precision, and so is what conjugate gradients need.
What else has few columns goes back and forth as arrays: observations and posteriors are those of the CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines import DeviceFeatures
from walkernel.tasks._observations import Array
from walkernel.tasks._solvers import (
    MAX_CHOLESKY_NODES,
    CholeskySolver,
    CovarianceProducts,
    FeaturePrior,
    as_array,
    like,
    plus_diagonal,
)


class DeviceFeaturePrior(FeaturePrior):
    """g ~ N(0, a²ΦΦᵀ): nodes are given by their rows of Φ on a device, (n, n_nodes)."""

    observed: DeviceFeatures

    @property
    def max_direct_nodes(self) -> int:
        """Number of nodes up to which the covariance is always factorized: whenever it fits into memory."""
        return MAX_CHOLESKY_NODES

    def covariance_of(self, positions: NDArray[np.int64]) -> Array:
        """Return the covariance of some of the observed nodes, (k, k)."""
        some = self.observed[positions]
        return as_array(self.amplitude**2 * some.gram(some))

    def products(self) -> CovarianceProducts:
        """Return the products with a²ΦΦᵀ, of tensors."""
        scaled = self.observed.scale_rows(np.full(self.row_size, self.amplitude))
        diagonal = like(scaled.matrix.values(), scaled.squared_norms())
        return CovarianceProducts(scaled.multiply_gram, diagonal, scaled.gram_width)

    def with_nodes(self, nodes: DeviceFeatures) -> Tensor:
        """Return a²ΦΦ*ᵀ, (n, k)."""
        return self.amplitude**2 * self.observed.gram(nodes)

    def variances(self, nodes: DeviceFeatures) -> Array:
        """Return a²‖φ*‖², (k,)."""
        return self.amplitude**2 * nodes.squared_norms()

    def weights_of(self, dual: Array) -> Array:
        """Return a²Φᵀ times a dual solution: weights of the features."""
        product = self.observed.multiply_transposed(dual.reshape(len(dual), -1))
        return np.asarray(self.amplitude**2 * product.reshape(-1, *dual.shape[1:]))

    def values(self, nodes: DeviceFeatures, weights: Array) -> Array:
        """Return Φ* times the weights."""
        product = nodes.multiply(weights.reshape(len(weights), -1))
        return np.asarray(product.reshape(-1, *weights.shape[1:]))


class DeviceCholeskySolver(CholeskySolver):
    """Solves systems with S by its Cholesky factor on a device."""

    def __init__(self, covariance: Tensor, variances: Array) -> None:
        self.factor, failed = torch.linalg.cholesky_ex(plus_diagonal(covariance, variances))
        if int(failed):
            raise np.linalg.LinAlgError("the matrix is not positive definite")

    def solve(self, sides: Any) -> Any:
        """Return S⁻¹ B, (n, c): an array for an array."""
        solved = torch.cholesky_solve(like(self.factor, sides), self.factor)
        return as_array(solved) if isinstance(sides, np.ndarray) else solved

    def log_determinant(self) -> float:
        """Return log det S."""
        return 2 * float(self.factor.diagonal().log().sum())

    def inverse(self) -> Tensor:
        """Return S⁻¹, (n, n)."""
        return torch.cholesky_inverse(self.factor)

    def _half(self, sides: Any) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, like(self.factor, sides), upper=False)
