"""The exact kernel as a dense matrix, for graphs of up to some thousand nodes and as ground truth."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from walkernel._checks import check_instance, fits_in_memory, refuse
from walkernel._door import door
from walkernel.features import UNSERVED, check_convergence, find_series, spectral_radius
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import check_rounding

EPSILON = float(np.finfo(np.float64).eps)
MAX_UNEVENNESS = 100.0
"""Largest ratio of roots of degrees, which enlarge the rounding of eigenvectors in functions of D⁻¹A."""


@door
def exact_kernel(graph: Graph, kernel: Kernel) -> NDArray[np.float64]:
    """Return the kernel as a dense array: the truth, for graphs of up to some thousand nodes.

    It is computed from the eigenvalues of M, or by summing the series if the graph is directed, and for the
    random-walk matrix where the largest degree is more than 10⁴ times the least.

    Parameters
    ----------
    graph : Graph
        The graph, directed or not. The array takes 8 n_nodes² bytes, and more than 4 GiB are refused.
    kernel : Kernel
        The kernel; its series must converge on the graph.

    Returns
    -------
    ndarray of float64, (n_nodes, n_nodes)
        K, rows and columns in the order of the ids.

    Raises
    ------
    DivergentKernelError
        If the series of the kernel diverges on the graph.
    ValueError
        If the array is too large, or if the sum of the series would lose its digits.

    See Also
    --------
    polynomial_operator : Products with the same matrix, without forming it.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1)])
    >>> wk.exact_kernel(graph, wk.PStepRandomWalk(p=1))
    array([[1., 1.],
           [1., 1.]])
    """
    check_instance("graph", graph, Graph)
    check_instance("kernel", kernel, Kernel)
    fits_in_memory((graph.n_nodes, graph.n_nodes), "Use polynomial_operator(graph, kernel).")
    check_convergence(graph, kernel)
    check_rounding(graph, kernel)
    M = graph.to_scipy(kernel.matrix).toarray()
    if graph.is_symmetric(kernel.matrix):
        return _of_symmetric(M, kernel)
    if not graph.directed:
        inverse = np.sqrt(graph.inverse_out_degrees())
        connected = inverse > 0
        if inverse.max() <= MAX_UNEVENNESS * inverse.min(initial=np.inf, where=connected):
            roots = np.where(connected, inverse, 1.0)
            return _of_symmetric(graph.to_scipy("normalized").toarray(), kernel) * roots[:, None] / roots
    unit = 2.0 ** math.ceil(math.log2(max(1.0, spectral_radius(graph, kernel.matrix))))
    return _sum_series(M / unit, kernel if unit == 1.0 else kernel.scaled(unit))


def _of_symmetric(M: NDArray[np.float64], kernel: Kernel) -> NDArray[np.float64]:
    """Return K(M) from the eigenvalues of M."""
    eigenvalues, vectors = scipy.linalg.eigh(M)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.real(kernel.spectrum(eigenvalues))
    if not np.isfinite(values).all():
        remedy = "Scale the kernel, or use matrix='normalized'."
        refuse("kernel", "of finite values on the graph's eigenvalues", kernel, remedy)
    K = (vectors * values) @ vectors.T
    return np.asarray((K + K.T) / 2)


def _sum_series(M: NDArray[np.float64], kernel: Kernel) -> NDArray[np.float64]:
    """Sum αₖ Mᵏ as far as the series goes, or as rounding lets it matter."""
    series = find_series(kernel, 1.0, 1.0, EPSILON)
    if not series.missing <= UNSERVED * series.sizes.sum():
        raise ValueError(
            f"exact_kernel: the series of {kernel}, which is summed on this graph, is longer than the "
            f"{series.terms.size} terms that can be computed. Use a narrower kernel."
        )
    total, power, largest = np.zeros_like(M), np.eye(len(M)), 0.0
    for term in np.trim_zeros(series.terms, "b"):
        if term != 0:
            change = term * power
            total += change
            largest = max(largest, float(np.abs(change).max()))
        power = power @ M
    if not EPSILON * largest <= 1e-8 * np.abs(total).max():
        raise ValueError(
            f"exact_kernel: the terms of {kernel} cancel on this graph: the largest is "
            f"{largest:.1e}, their sum {np.abs(total).max():.1e}. Use a smaller lengthscale or scale."
        )
    return total
