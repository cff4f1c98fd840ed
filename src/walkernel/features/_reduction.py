"""Fewer columns: anchor points and the Johnson–Lindenstrauss projection.

Both keep E[Φ₁Φ₂ᵀ] = K if the two sides use the same seed, and both add variance.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import check_instance, fits_in_memory, whole_number
from walkernel._philox import check_seed

PROJECTION_ROWS = 2**6
"""Rows of the Gaussian matrix made at a time; only those of columns that are reached are made."""


def anchor_points(
    features: scipy.sparse.csr_array, n_anchors: int, *, seed: int = 0
) -> scipy.sparse.csr_array:
    """Keep the columns of sparse features at a random subset of the nodes, scaled by √(N / n_anchors).

    It is unbiased over the choice of anchors (Choromanski 2023). It pays where columns cost (a linear model,
    a dense solver) and K is smooth, so that every pair of nodes meets on many nodes; with a short lengthscale
    most pairs lose all the nodes they meet on.

    Parameters
    ----------
    features : csr_array, (n, N)
        Features from ``Walks.features``; use the same seed for both sides of a kernel.
    n_anchors : int
        Number of columns to keep, 1 … N.
    seed : int
        Key of the choice.

    Returns
    -------
    csr_array of float64, (n, n_anchors)
        The columns that are kept, scaled.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    >>> wk.anchor_points(wk.sample_walks(graph, 8).features(wk.Diffusion()), 2).shape
    (3, 2)
    """
    check_instance("features", features, scipy.sparse.csr_array)
    n_columns = features.shape[1]
    n_anchors = whole_number("n_anchors", n_anchors, 1, n_columns)
    generator = np.random.Generator(np.random.Philox(key=check_seed(seed)))
    anchors = np.sort(generator.choice(n_columns, size=n_anchors, replace=False, shuffle=False))
    return features[:, anchors] * np.sqrt(n_columns / n_anchors)


def johnson_lindenstrauss(
    features: scipy.sparse.csr_array, n_components: int, *, seed: int = 0
) -> NDArray[np.float64]:
    r"""Project sparse features to a few dense columns by a Gaussian matrix.

    .. math:: \Phi G, \qquad G_{ij} \sim N(0, 1 / \text{n\_components})

    The error is additive: its expected squared Frobenius norm is (tr(K)² + ‖K‖²_F) / n_components, many
    times K itself where K is close to a multiple of the identity (short lengthscales). It pays for smooth
    kernels only, whose eigenvalues fall fast, so that the trace is not much larger than ‖K‖_F.

    Parameters
    ----------
    features : csr_array, (n, N)
        Features from ``Walks.features``; use the same seed for both sides of a kernel.
    n_components : int
        Number of columns of the result. Four times as many halve the error.
    seed : int
        Key of the projection.

    Returns
    -------
    ndarray of float64, (n, n_components)
        The projected features.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    >>> wk.johnson_lindenstrauss(wk.sample_walks(graph, 8).features(wk.Diffusion()), 2).shape
    (3, 2)
    """
    check_instance("features", features, scipy.sparse.csr_array)
    n_components = whole_number("n_components", n_components, 1)
    fits_in_memory((features.shape[0], n_components), "Use fewer components.")
    key = check_seed(seed)
    reached, columns = np.unique(features.indices, return_inverse=True)
    gaussian = np.empty((reached.size, n_components))
    for block in np.unique(reached // PROJECTION_ROWS):
        generator = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, int(block)]))
        rows = generator.standard_normal((PROJECTION_ROWS, n_components))
        inside = slice(*np.searchsorted(reached, [block * PROJECTION_ROWS, (block + 1) * PROJECTION_ROWS]))
        gaussian[inside] = rows[reached[inside] % PROJECTION_ROWS]
    shape = (features.shape[0], reached.size)
    result = scipy.sparse.csr_array((features.data, columns, features.indptr), shape=shape) @ gaussian
    return np.asarray(result / np.sqrt(n_components))
