"""The operator: a kernel matrix one can use without having it.

A subclass of ``KernelOperator`` gives three methods: the product with a matrix, the transpose, and a block of
rows. Everything a user calls is derived from these, unless there is a faster way.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from walkernel._checks import Described, check_distinct, fits_in_memory, refuse, whole_number
from walkernel._door import door
from walkernel._html import html_table
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._entry_errors import Estimate
from walkernel.operators._explanation import Explanation
from walkernel.operators._groups import normalize_columns
from walkernel.operators._neighbors import EstimatedNeighbors, Neighbors, belonging, keep_best

ROWS_AT_ONCE = 2**24
"""Entries of a dense block of rows that is made and thrown away."""
SAME: Any = object()
"""Columns that stand for the nodes of the rows."""
Columns = NDArray[np.int64] | None
"""The nodes of columns; None for all nodes of the graph."""
NEIGHBORS_AT_ONCE = 2**9
"""Nodes whose neighbours' walks are in memory at a time."""
RUNNERS_UP = 20
"""Nodes left out, at least, whose error bars are compared with those of the neighbours."""


class KernelOperator(LinearOperator):
    """A kernel matrix that is used without being formed, as a SciPy ``LinearOperator``.

    ``estimate_kernel`` and ``polynomial_operator`` return it. ``K @ v``, ``K.T @ v`` and SciPy's iterative
    solvers take it as a matrix of shape ``K.shape``; the methods below give its entries, rows and nearest
    nodes, those of walks with standard errors. Nodes are given and returned as labels if the graph has them,
    else as ids.

    Attributes
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel that it is, or estimates.
    nodes : ndarray, (n,)
        The nodes that rows stand for, and columns too unless these are other ones.
    columns : ndarray
        The nodes that columns stand for.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> K = wk.polynomial_operator(graph, wk.Diffusion(sigma=1.0))
    >>> K.shape, K.entries("a", ["b", "d"]).round(3), (K @ np.ones(4)).round(3)
    ((4, 4), array([0.168, 0.02 ]), array([0.973, 0.973, 1.129, 0.852]))
    >>> K.topk(["d"], 2).nodes
    array([['c', 'a']], dtype=object)
    """

    _public_name = "KernelOperator"
    """What errors call it, of whichever subclass it is."""

    def __init__(self, graph: Graph, ids: NDArray[np.int64], columns: Columns = SAME) -> None:
        n_columns = graph.n_nodes if columns is None else ids.size if columns is SAME else columns.size
        super().__init__(dtype=np.dtype(np.float64), shape=(ids.size, n_columns))
        self.graph = graph
        self.ids = ids
        self.ids.flags.writeable = False
        self.column_ids = ids if columns is SAME else columns
        self._is_whole = ids.size == graph.n_nodes and bool((ids == np.arange(ids.size)).all())

    @property
    @abstractmethod
    def kernel(self) -> Kernel:
        """The kernel that it is, or estimates."""

    @abstractmethod
    def _matmat(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return K V for V of shape (n, c)."""

    @abstractmethod
    def _transpose(self) -> KernelOperator:
        """Return Kᵀ."""

    @abstractmethod
    def _row_block(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the few rows, dense, at positions of ``nodes``."""

    @abstractmethod
    def explain(self) -> Explanation:
        """Say in words and numbers what was chosen and why, and what it is worth.

        The error is estimated from the spread of groups of walks, which are walked again for it.

        Returns
        -------
        Explanation
            Prints as its ``text``; ``error`` is the relative error, ``n_steps`` and ``n_bytes`` are steps and
            memory.

        Examples
        --------
        >>> import walkernel as wk
        >>> graph = wk.load_dataset("karate").graph
        >>> about = wk.estimate_kernel(graph, wk.Diffusion(1.0), n_walks=256).explain()
        >>> print(about.text.splitlines()[0])
        Diffusion(sigma=1.0) on 34 nodes, estimated from random walks.
        >>> bool(0 < about.error < 0.01)
        True
        """

    def _adjoint(self) -> KernelOperator:
        return self._transpose()

    def _matvec(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._matmat(v.reshape(-1, 1)).ravel()

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rows at positions of ``nodes``, dense."""
        rows = np.empty((positions.size, self.shape[1]))
        for part in self._blocks(positions.size):
            rows[part] = self._row_block(positions[part])
        return rows

    def _blocks(self, n_rows: int) -> Iterator[slice]:
        """Yield which rows are made together."""
        size = max(1, ROWS_AT_ONCE // max(1, self.shape[1]))
        for first in range(0, n_rows, size):
            yield slice(first, first + size)

    def _entries(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return entries at flat arrays of positions."""
        needed, where = np.unique(rows, return_inverse=True)
        result = np.empty(rows.size)
        for part in self._blocks(needed.size):
            inside = (where >= part.start) & (where < part.stop)
            block = self._row_block(needed[part])
            result[inside] = block[where[inside] - part.start, columns[inside]]
        return result

    @door
    def __matmul__(self, other: Any) -> Any:
        """Return K @ v for a vector (n,) or a matrix (n, c) of real numbers.

        The product with a tensor of PyTorch is a tensor of its dtype (float64 for integers) on its device;
        where the features are on a device, it is made there.
        """
        if isinstance(other, LinearOperator):
            return super().__matmul__(other)
        if _is_tensor(other):
            return self._times_tensor(other)
        try:
            array = np.asarray(other)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
            refuse("the right-hand side", "a real vector or matrix", other, error=TypeError)
        self._check_length("the right-hand side", array.shape, array.shape[0], self.shape[1])
        values = array.astype(np.float64, copy=False)
        return self._matvec(values) if values.ndim == 1 else self._matmat(values)

    def _check_length(self, side: str, shape: Any, length: int, wanted: int) -> None:
        """Refuse what K is multiplied with where it has not one value for each node."""
        if length != wanted:
            refuse(side, f"of length {wanted}, one value for each node", Described(f"shape {tuple(shape)}"))

    def _times_tensor(self, other: Any) -> Any:
        """Return K @ v as a tensor for a tensor."""
        what = "the right-hand side"
        if other.is_complex() or str(other.layout) != "torch.strided" or other.ndim not in (1, 2):
            got = Described(f"a tensor of shape {tuple(other.shape)}, {other.dtype} and {other.layout}")
            refuse(what, "a real vector or matrix", got, error=TypeError)
        self._check_length(what, other.shape, other.shape[0], self.shape[1])
        if other.requires_grad:
            remedy = "Use v.detach(), or walkernel.torch.WalkCovariance, whose products have gradients."
            refuse(what, "a tensor without gradients", Described("one that requires them"), remedy)
        V = other.resolve_neg() if other.is_floating_point() else other.double()
        columns = V[:, None] if V.ndim == 1 else V
        return self._tensor_matmat(columns).to(V.device, V.dtype).reshape(-1, *other.shape[1:])

    def _tensor_matmat(self, V: Any) -> Any:
        """Return K V for a tensor, on any device and of any dtype."""
        return V.new_tensor(self._matmat(V.double().cpu().numpy()))

    @door
    def __rmatmul__(self, other: Any) -> Any:
        """Return v @ K for a vector (n,) or a matrix (c, n) of real numbers."""
        if isinstance(other, LinearOperator):
            return super().__rmatmul__(other)
        array = other if _is_tensor(other) else np.asarray(other)
        length = array.shape[-1] if array.ndim in (1, 2) else -1
        self._check_length("the left-hand side", array.shape, length, self.shape[0])
        return self._transpose() @ array if array.ndim == 1 else (self._transpose() @ array.T).T

    @door
    def dot(self, x: Any) -> Any:
        """Return the product K @ x.

        Parameters
        ----------
        x : array or tensor of float, (n,) or (n, c)
            Vectors with a value for each column of K, in the order of ``columns``. Numbers and operators give
            operators, as in SciPy.

        Returns
        -------
        array or tensor of float64, (n,) or (n, c)
            The product, of the kind of ``x``.

        Examples
        --------
        >>> import walkernel as wk
        >>> K = wk.polynomial_operator(wk.Graph.from_edges([(0, 1)]), wk.PStepRandomWalk(p=1))
        >>> K.dot([1.0, 2.0])
        array([3., 3.])
        """
        return super().dot(x) if np.isscalar(x) or isinstance(x, LinearOperator) else self @ x

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("kernel", repr(self.kernel)), ("graph", repr(self.graph))]
        rows += [("shape", f"{self.shape[0]:,} × {self.shape[1]:,}"), ("steps walked", f"{self.n_steps:,}")]
        return html_table(type(self).__name__, [], rows)

    @property
    def n_steps(self) -> int:
        """Steps walked for it, and edges that exact heads followed; 0 for a deterministic engine."""
        return 0

    @property
    def nodes(self) -> NDArray[Any]:
        """The nodes of rows: labels if the graph has them, else ids."""
        return self.graph.names(self.ids)

    @property
    def columns(self) -> NDArray[Any]:
        """The nodes of columns: labels if the graph has them, else ids."""
        return self.graph.names(self._column_ids(np.arange(self.shape[1])))

    @door
    def diagonal(self) -> NDArray[np.float64]:
        """Return the entries K[i, i] of each node i of the rows.

        Returns
        -------
        ndarray of float64, (n,)
            The diagonal.
        """
        positions = np.arange(self.shape[0])
        columns = self._own_columns(positions)
        if (columns < 0).any():
            refuse("K", "an operator whose rows have columns of their own", self, "Use K.T.diagonal().")
        return self._entries(positions, columns)

    def _own_columns(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns of the nodes of some rows, -1 for nodes without one."""
        if self.column_ids is self.ids:
            return positions
        own = self.ids[positions]
        return own if self.column_ids is None else find_positions(self.column_ids, own)

    def _column_ids(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes of some columns."""
        return columns if self.column_ids is None else self.column_ids[columns]

    @door
    def entries(self, rows: Any, cols: Any) -> NDArray[np.float64]:
        """Return the entries K[rows[k], cols[k]].

        Parameters
        ----------
        rows : node or array of nodes
            Nodes of rows.
        cols : node or array of nodes
            Nodes of columns, which are broadcast with ``rows`` as NumPy indices are.

        Returns
        -------
        ndarray of float64
            The entries, of the shape that ``rows`` and ``cols`` broadcast to.

        See Also
        --------
        estimate : The same with standard errors.

        Examples
        --------
        >>> import walkernel as wk
        >>> K = wk.polynomial_operator(wk.Graph.from_edges([(0, 1), (1, 2)]), wk.Diffusion(1.0))
        >>> K.entries([0, 0], [1, 2]).round(4)
        array([0.2235, 0.0387])
        """
        i, j = self._pairs(rows, cols)
        return self._entries(i.ravel(), j.ravel()).reshape(i.shape)

    def _pairs(self, rows: Any, cols: Any) -> list[NDArray[np.int64]]:
        """Return the positions of entries, row and column, broadcast against each other."""
        i = self._positions("rows", rows)
        j = self._positions("cols", cols, of_columns=True)
        try:
            return list(np.broadcast_arrays(i, j))
        except ValueError:
            refuse("rows and cols", "of shapes that broadcast", Described(f"shapes {i.shape} and {j.shape}"))

    @door
    def estimate(self, rows: Any, cols: Any) -> Estimate:
        """Return entries as ``entries`` does, with standard errors.

        The standard errors are those of the walks, by the jackknife over at least 16 independent groups of
        them where there are so many, and 0 for a deterministic operator. They are larger than that where the
        law of the walks tells of events, such as a step along a weak edge, that these walks may have missed.
        Where hardly a walk goes from one node to the other, no interval about the estimate says much:
        ``rare`` tells where, and ``upper`` bounds the entries there too.

        Parameters
        ----------
        rows : node or array of nodes
            Nodes of rows.
        cols : node or array of nodes
            Nodes of columns, which are broadcast with ``rows`` as NumPy indices are.

        Returns
        -------
        Estimate
            Values and standard errors, of the shape that ``rows`` and ``cols`` broadcast to.

        Examples
        --------
        >>> import walkernel as wk
        >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
        >>> K = wk.estimate_kernel(graph, wk.Diffusion(1.0), n_walks=256)
        >>> value, stderr = K.estimate("a", ["b", "d"])
        >>> exact = wk.polynomial_operator(graph, wk.Diffusion(1.0)).entries("a", ["b", "d"])
        >>> bool((abs(value - exact) < 4 * stderr + 1e-9).all())
        True
        """
        i, j = self._pairs(rows, cols)
        values = self._entries(i.ravel(), j.ravel()).reshape(i.shape)
        if not values.size:
            return Estimate(values, np.zeros(values.shape), 0)
        return self._entry_estimate(i.ravel(), j.ravel(), values)

    def _entry_estimate(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
    ) -> Estimate:
        """Return values of any shape with the standard errors at flat arrays of positions."""
        return Estimate(values, np.zeros(values.shape), 0)

    @door
    def estimate_product(self, v: ArrayLike) -> Estimate:
        """Return K @ v with standard errors.

        They are those of the walks, by the jackknife over the groups of ``estimate``, and 0 for a
        deterministic operator. All nodes are walked from once more, so that it takes about as long as the
        estimation of K. Errors of different nodes are correlated: they have the walks from all nodes in
        common.

        Parameters
        ----------
        v : array of float, (n,) or (n, c)
            Vectors with a value for each column of K. Standard errors have their unit.

        Returns
        -------
        Estimate
            Values and standard errors, both of the shape of K @ v.

        Examples
        --------
        >>> import walkernel as wk
        >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
        >>> K = wk.estimate_kernel(graph, wk.Diffusion(1.0), n_walks=256)
        >>> value, stderr = K.estimate_product([1.0, 0.0, 0.0, -1.0])
        >>> exact = wk.polynomial_operator(graph, wk.Diffusion(1.0)) @ [1.0, 0.0, 0.0, -1.0]
        >>> bool((abs(value - exact) < 4 * stderr + 1e-9).all())
        True
        """
        v = v.detach().cpu().numpy() if _is_tensor(v) else v  # type: ignore[union-attr]
        values = self @ v
        columns, units = normalize_columns(np.asarray(v, dtype=np.float64).reshape(self.shape[1], -1))
        errors, n_groups = self._product_errors(columns)
        return Estimate(values, (errors * units).reshape(values.shape), n_groups)

    @door
    def estimate_row_sums(self) -> Estimate:
        """Return the sum of each row with standard errors: the product with ones.

        Returns
        -------
        Estimate
            Values and standard errors, (n,) each.

        Examples
        --------
        >>> import walkernel as wk
        >>> K = wk.estimate_kernel(wk.load_dataset("karate").graph, wk.Diffusion(1.0), n_walks=256)
        >>> K.estimate_row_sums().stderr.shape
        (34,)
        """
        return self.estimate_product(np.ones(self.shape[1]))

    def _product_errors(self, V: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
        """Return standard errors of K V for V of shape (n, c), and the number of groups behind them.

        The largest entry of each column of V is about one in size.
        """
        return np.zeros((self.shape[0], V.shape[1])), 0

    @door
    def rows(self, nodes: Any) -> NDArray[np.float64]:
        """Return the rows of some nodes as a dense array.

        Parameters
        ----------
        nodes : node or list of nodes
            Whose rows are wanted.

        Returns
        -------
        ndarray of float64, (len(nodes), n)
            The rows, in the order of ``nodes``.
        """
        positions = self.positions("nodes", nodes)
        fits_in_memory((positions.size, self.shape[1]), "Ask for fewer rows at a time.")
        return self._rows(positions)

    @door
    def topk(self, nodes: Any, k: int) -> Neighbors:
        """Return the k most similar nodes of each of some nodes, among those of positive value.

        The node itself is not among them.

        Of walks, these are the largest of many estimates: ``estimate_topk`` tells which of them are
        certain.

        Parameters
        ----------
        nodes : node or list of nodes
            Whose neighbours are wanted.
        k : int
            How many.

        Returns
        -------
        Neighbors
            The nodes and the values, (len(nodes), k) each, best first.

        Warns
        -----
        UserWarning
            If walks found fewer than k nodes, or if hardly a walk leads from one of the 16 nodes of the most
            edges to the last of its neighbours.

        Examples
        --------
        >>> import walkernel as wk
        >>> K = wk.polynomial_operator(wk.load_dataset("karate").graph, wk.Diffusion(1.0))
        >>> K.topk([0, 33], 3).nodes
        array([[11, 12, 17],
               [26, 14, 15]])
        """
        positions, found, values = self._best(nodes, k)
        self._warn_of_few_walks(positions, found, values)
        return Neighbors(self._names(found), values)

    def _warn_of_few_walks(
        self, positions: NDArray[np.int64], found: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        """Warn where walks found too few neighbours, or the last one by few walks."""

    @door
    def estimate_topk(self, nodes: Any, k: int) -> EstimatedNeighbors:
        """Return the neighbours of ``topk`` with standard errors, and which of them are certain.

        The standard errors are those that ``estimate`` gives for the same entries. The largest of many
        estimates are too large on average, and walks may have missed a node altogether, so ``certified``
        compares intervals that hold for all nodes at once: the lower ends of the neighbours' intervals must
        be above the upper ends of all that were left out. Of the best of these the error bars are computed
        as well; the others, and nodes that no walk reached, are bounded by the largest contribution of
        walks to the nodes that were examined, or by what walks can add to an exact head. Ties are
        not certified. More walks certify more neighbours.

        Parameters
        ----------
        nodes : node or list of nodes
            Whose neighbours are wanted.
        k : int
            How many.

        Returns
        -------
        EstimatedNeighbors
            Nodes, values, standard errors and which are certain, (len(nodes), k) each, best first.

        See Also
        --------
        nearest : The same to a tolerance, with a method that it chooses.

        Examples
        --------
        >>> import walkernel as wk
        >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
        >>> best = wk.estimate_kernel(graph, wk.Diffusion(1.0), n_walks=256).estimate_topk(["d"], 1)
        >>> best.nodes[0, 0], bool(best.stderr[0, 0] > 0), best.certified
        ('c', True, array([[ True]]))
        """
        k = whole_number("k", k, 1)
        examined = min(k + max(k, RUNNERS_UP), max(k, self.shape[1]))
        positions, found, values = self._best(nodes, examined + 1)
        errors, certified = np.full(found.shape, np.nan), np.zeros((positions.size, k), dtype=bool)
        for first in range(0, positions.size, NEIGHBORS_AT_ONCE):
            part = slice(first, first + NEIGHBORS_AT_ONCE)
            there = (found[part] >= 0) & (np.arange(examined + 1) < examined)
            if there.any():
                rows = np.broadcast_to(positions[part, None], there.shape)[there]
                estimate = self._entry_estimate(rows, found[part][there], values[part][there])
                errors[part][there] = estimate.stderr
                certified[part] = belonging(
                    estimate, there, values[part], k, self.shape[1] - 1, self._beyond_heads()
                )
        found, values, errors = found[:, :k], values[:, :k], errors[:, :k]
        return EstimatedNeighbors(self._names(found), values, errors, certified)

    def _beyond_heads(self) -> float:
        """Return a bound on what walks can add to an entry beyond exact heads; infinity if none is known."""
        return math.inf

    def _best(self, nodes: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the positions of nodes and of their neighbours, and values; -1 and NaN where none are."""
        positions = self.positions("nodes", nodes)
        k = whole_number("k", k, 1)
        fits_in_memory((positions.size, k), "Use a smaller k.")
        found = np.full((positions.size, k), -1, dtype=np.int64)
        values = np.full((positions.size, k), np.nan)
        for part in self._blocks(positions.size):
            self._topk_block(positions[part], found[part], values[part])
        return positions, found, values

    def _names(self, found: NDArray[np.int64]) -> NDArray[Any]:
        """Return the nodes at some positions: None, or n_nodes where nodes are ids, for a position of -1."""
        names = self.graph.names(self._column_ids(np.maximum(found, 0)))
        missing: Any = None if names.dtype == object else self.graph.n_nodes
        return np.where(found < 0, missing, names)

    def _topk_block(
        self, positions: NDArray[np.int64], found: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        block, own = self._row_block(positions), self._own_columns(positions)
        for i, (position, row) in enumerate(zip(own, block, strict=True)):
            if position >= 0:
                row[position] = 0.0
            candidates = np.flatnonzero(row > 0)
            keep_best(candidates, row[candidates], found[i], values[i])

    @door
    def to_dense(self) -> NDArray[np.float64]:
        """Return the whole matrix, which takes 8 n² bytes; more than 4 GiB are refused.

        Returns
        -------
        ndarray of float64, (n, n)
            K.
        """
        fits_in_memory(self.shape, "Use K @ v, K.entries or K.rows(nodes).")
        return self._rows(np.arange(self.shape[0]))

    def _positions(self, parameter: str, nodes: Any, *, of_columns: bool = False) -> NDArray[np.int64]:
        """Return which rows, or columns, some nodes stand for."""
        ids, own = self.graph.ids(nodes), self.column_ids if of_columns else self.ids
        if own is None or (own is self.ids and self._is_whole):
            return ids
        found = find_positions(own, ids)
        if (found < 0).any():
            stranger = self.graph.names(np.atleast_1d(ids)[np.atleast_1d(found) < 0])[0]
            where = "K.columns" if of_columns and own is not self.ids else "K.nodes"
            refuse(parameter, f"among the operator's own nodes ({where})", stranger)
        return found

    def positions(self, parameter: str, nodes: Any) -> NDArray[np.int64]:
        """Return which rows some nodes stand for; nodes of other operators are refused.

        Parameters
        ----------
        parameter : str
            Name of the parameter that the nodes come from, for messages.
        nodes : node or list of nodes
            Nodes of rows.

        Returns
        -------
        ndarray of int64, (len(nodes),)
            Numbers of rows.
        """
        positions = np.atleast_1d(self._positions(parameter, nodes))
        if positions.ndim > 1:
            refuse(parameter, "a flat list of nodes", positions)
        return positions


def find_positions(nodes: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where some nodes stand among others, -1 for nowhere."""
    order = np.argsort(nodes)
    found = order[np.minimum(np.searchsorted(nodes, wanted, sorter=order), nodes.size - 1)]
    return np.where(nodes[found] == wanted, found, -1)


def _is_tensor(value: object) -> bool:
    """Tell whether something is a tensor of PyTorch, without importing that."""
    return any((kind.__module__, kind.__name__) == ("torch", "Tensor") for kind in type(value).__mro__)


def check_nodes(graph: Graph, nodes: ArrayLike | None, parameter: str = "nodes") -> NDArray[np.int64]:
    """Return the ids of distinct nodes, all of the graph's if none are given."""
    if nodes is None:
        return np.arange(graph.n_nodes)
    ids = graph.ids(nodes)
    check_distinct(parameter, ids, graph.names)
    return ids
