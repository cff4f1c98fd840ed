"""What leading eigenvectors of W̃, the normalized matrix, say of clusters: their kernel and their number.

K = Σ K(λ) v vᵀ over the eigenvectors of W̃, so that the rows of V √K(λ) are features of K. A kernel that is
wide enough to tell clusters apart has nearly all its weight on the eigenvalues next to 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from walkernel.kernels import Kernel
from walkernel.operators import Eigenvectors

EXTRA_VECTORS = 20
"""Eigenvectors beyond the number of clusters: fewer miss clusters that hang together by few edges."""
MOST_CLUSTERS = 30
"""Largest number of clusters that is considered where none is given."""


def normalized_kernel(
    found: Eigenvectors, kernel: Kernel, count: int
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return products with K_ij / √(K_ii K_jj), of the eigenvectors of components and some leading others."""
    weights = np.sqrt(np.maximum(np.real(kernel.spectrum(np.append(found.values[:count], 1.0))), 0.0))
    features = found.vectors[:, :count] * (weights[:-1] / weights[-1])
    norms = np.sqrt(np.einsum("ij,ij->i", features, features) + found.components.data**2)
    features /= norms[:, None]
    components = found.components.copy()
    components.data /= norms
    if components.shape[1] == 1:
        features = np.hstack([features, components.toarray()])
        return lambda Z: features @ (features.T @ Z)
    return lambda Z: features @ (features.T @ Z) + components @ (components.T @ Z)


def count_clusters(found: Eigenvectors) -> tuple[int, str]:
    """Return how many eigenvalues there are before the widest gap, and a sentence that says so.

    Of the components, those count that have at least one in 30 of the nodes.
    """
    sizes = np.bincount(found.components.indices)
    large = max(1, int(np.sum(sizes * MOST_CLUSTERS >= sizes.sum())))
    values = np.append(np.ones(large), found.values)[: max(large, MOST_CLUSTERS) + 1]
    if values.size < 3:
        return 1, "There is one cluster: the graph is too small for several."
    count = 2 + int(np.argmax(values[1:-1] - values[2:]))
    before, after = values[count - 1], values[count]
    return count, (
        f"The number of clusters is chosen: the widest gap between eigenvalues of the normalized matrix is "
        f"that from {before:.3f} to {after:.3f}, after {count} of them."
    )
