"""Personalised PageRank of distributions of seeds: exact to a tolerance, in O(edges) memory.

With P = D⁻¹A and s a distribution, walks that go on with probability c, and else begin again at a seed, are
at x = c xP + (1 − c + c d) s in the long run, where d is the share of x at nodes without out-edges, from
which walks begin again too. So x is in proportion to s(I − cP)⁻¹, and equals sK / sum(sK) with K that of
``PageRank``: a product with Kᵀ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, check_instance, fits_in_memory, real_array, real_number, refuse
from walkernel._door import door
from walkernel.engines import Engine
from walkernel.graph import Graph
from walkernel.kernels import PageRank
from walkernel.operators._polynomial import polynomial_operator
from walkernel.storage import any_entry

MIN_TOL = 1e-14
"""Least error that can be asked for."""
BLOCK_ENTRIES = 2**22
"""Entries of distributions that are multiplied together."""
FORMS = "nodes, a mapping of nodes to weights, a list of such mappings, or an array of shape (k, n_nodes)"


@door
def personalized_pagerank(
    graph: Graph, seeds: Any, *, damping: float = 0.85, tol: float = 1e-10, engine: str | Engine | None = None
) -> NDArray[np.float64]:
    r"""Return the personalised PageRank of seeds: where a random walk is that restarts at them.

    .. math:: \pi = (1 - c) \sum_{k=0}^{\infty} c^k \, (P^\top)^k s

    Here s is the distribution of the seeds and P = D⁻¹A. At each step a walk follows an edge, in proportion
    to the weights, with probability c = ``damping``; else it begins again at a seed. From a node without
    out-edges it always does, for which π is divided by its sum. The result is that of ``networkx.pagerank(G,
    damping, personalization=...)``, and for one seed that of its row of the kernel ``PageRank``, divided by
    its sum. The default solver of scikit-network does otherwise at nodes without out-edges, where its solver
    "RH" agrees.

    Parameters
    ----------
    graph : Graph
        The graph, directed or not, without negative weights.
    seeds : node, list of nodes, mapping, list of mappings, or array of float, (k, n_nodes)
        A node, some nodes of equal weight, or a mapping of nodes to weights. Several distributions at once
        are a list of mappings, or the rows of a dense or sparse array, whose columns are in the order of the
        ids. Weights are not negative and need not sum to one; a node that is listed twice counts twice.
    damping : float in (0, 1)
        c, the probability to follow an edge. Decrease it to stay closer to the seeds.
    tol : float
        Bound on the sum of the absolute errors of a distribution. Rounding adds 1e-15 / (1 − damping).
    engine : {None, "cpu", "cuda"}, CPU or CUDA
        Where products are computed, in double precision. None is the CPU.

    Returns
    -------
    ndarray of float64, (n_nodes,) or (k, n_nodes)
        Values in the order of the ids, which sum to one; (k, n_nodes) for several distributions.

    See Also
    --------
    PageRank : The kernel, for estimates, features and nearest nodes.
    nearest : The nodes of the largest values alone, for which few nodes of a large graph are visited.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("a", "c")], directed=True)
    >>> wk.personalized_pagerank(graph, "a", damping=0.5).round(4)
    array([0.6154, 0.1538, 0.2308])
    >>> wk.personalized_pagerank(graph, [{"a": 2, "b": 1}, {"c": 1}], damping=0.5).round(4)
    array([[0.4211, 0.3158, 0.2632],
           [0.    , 0.    , 1.    ]])
    """
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    kernel = PageRank(damping)
    tol = real_number("tol", tol, minimum=MIN_TOL, below=1)
    if graph.weights is not None and any_entry(graph.weights, lambda values: values < 0):
        remedy = "polynomial_operator(graph, PageRank(matrix='normalized')) takes weights of either sign."
        received = Described(f"weights down to {graph.weights.min():.3g}")
        refuse("graph", "without negative weights, which no walk can follow", received, remedy)
    distributions, is_one = read_distributions(graph, seeds)
    fits_in_memory(distributions.shape, "Give fewer distributions at a time.")
    K = polynomial_operator(graph, kernel, tol=_product_tol(graph, kernel, tol), engine=engine).T
    result = np.empty(distributions.shape)
    size = max(1, BLOCK_ENTRIES // graph.n_nodes)
    for first in range(0, len(result), size):
        part = slice(first, first + size)
        found = np.maximum(K @ distributions[part].toarray().T, 0.0)
        result[part] = (found / found.sum(axis=0)).T
    return result[0] if is_one else result


def _product_tol(graph: Graph, kernel: PageRank, tol: float) -> float:
    """Return the tolerance of sK for one of sK / sum(sK).

    What a Taylor series leaves out, Σ_{k>n} (1 − c)cᵏ sPᵏ, is at most cⁿ⁺¹ of the sum, as sPᵏ becomes smaller
    where walks end, and the quotient is off by at most twice that. A Chebyshev series is off everywhere, also
    at nodes without edges, where sK is only (1 − c)s.
    """
    has_isolated = not graph.directed and graph.out_degrees().min() == 0
    return tol / 2 * (1 - kernel.damping if has_isolated else 1.0)


def read_distributions(graph: Graph, seeds: Any) -> tuple[scipy.sparse.csr_array, bool]:
    """Return distributions as rows that sum to one, (k, n_nodes), and whether a single one was given."""
    if isinstance(seeds, Mapping):
        return _normalized(_from_mappings(graph, [seeds])), True
    if _all_are(Mapping, seeds):
        return _normalized(_from_mappings(graph, seeds)), False
    is_array = scipy.sparse.issparse(seeds) or len(getattr(seeds, "shape", ())) == 2
    if is_array or _all_are((list, np.ndarray), seeds):
        return _normalized(_from_array(graph, seeds)), False
    return _normalized(_from_nodes(graph, seeds)), True


def _all_are(kind: type | tuple[type, ...], seeds: Any) -> bool:
    """Tell whether something is a list or a tuple of things of a kind."""
    return isinstance(seeds, (list, tuple)) and len(seeds) > 0 and all(isinstance(x, kind) for x in seeds)


def _from_nodes(graph: Graph, nodes: Any) -> scipy.sparse.csr_array:
    """Return the uniform distribution of some nodes."""
    if graph.labels is None and getattr(nodes, "dtype", np.dtype(int)).kind == "f":
        remedy = "The weights of all nodes are an array of shape (1, n_nodes)."
        refuse("seeds", FORMS, nodes, remedy, TypeError)
    ids = _ids(graph, nodes)
    if ids.ndim > 1 or ids.size == 0:
        refuse("seeds", "at least one node, in a flat list", Described(f"shape {ids.shape}"))
    weights = np.ones(ids.size)
    return scipy.sparse.csr_array((weights, (np.zeros_like(ids.ravel()), ids.ravel())), (1, graph.n_nodes))


def _from_mappings(graph: Graph, mappings: Sequence[Mapping[Any, Any]]) -> scipy.sparse.csr_array:
    """Return a row of weights for each mapping of nodes to weights."""
    rows, columns, weights = [], [], []
    for i, mapping in enumerate(mappings):
        if not mapping:
            refuse("seeds", "mappings of at least one node to its weight", mapping)
        ids = _ids(graph, list(mapping))
        rows.append(np.full(ids.size, i))
        columns.append(ids)
        weights.append(real_array("seeds", list(mapping.values()), ndim=1))
    entries = np.concatenate(rows), np.concatenate(columns)
    return scipy.sparse.csr_array((np.concatenate(weights), entries), (len(mappings), graph.n_nodes))


def _from_array(graph: Graph, array: Any) -> scipy.sparse.csr_array:
    """Return the rows of a dense or sparse array of weights."""
    is_sparse = scipy.sparse.issparse(array)
    given = array if is_sparse else real_array("seeds", array, ndim=2)
    if len(given.shape) != 2 or given.shape[1] != graph.n_nodes or given.shape[0] == 0:
        refuse("seeds", FORMS, Described(f"an array of shape {given.shape}"))
    rows = scipy.sparse.csr_array(given, copy=True)
    rows.sum_duplicates()
    rows.data = real_array("seeds", rows.data)
    return rows


def _ids(graph: Graph, nodes: Any) -> NDArray[np.int64]:
    """Return the ids of nodes; errors call them seeds."""
    try:
        return graph.ids(nodes)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace(": nodes ", ": seeds ", 1)) from None


def _normalized(rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return rows of weights divided by their sums; negative weights, and rows without any, are refused."""
    if rows.data.min(initial=0.0) < 0:
        refuse("seeds", "of weights that are not negative", Described(f"the weight {rows.data.min():.3g}"))
    largest = rows.max(axis=1).toarray().ravel()
    if not largest.all():
        where = f" in row {int(np.argmin(largest))}" if len(largest) > 1 else ""
        refuse("seeds", "of a positive weight for some node", Described(f"none{where}"))
    counts = np.diff(rows.indptr)
    shares = rows.data / np.repeat(largest, counts)
    result = scipy.sparse.csr_array((shares, rows.indices, rows.indptr), rows.shape)
    result.data /= np.repeat(np.asarray(result.sum(axis=1)).ravel(), counts)
    return result
