"""Sums over the walks of each group, without features: what error bars of products are made of.

For walks in G groups, with φ_ig the feature of group g of start node i,

    gathered[i, g] = φ_ig · u        scattered[g] = Σ_i v_i φ_ig

are sums over deposits. The nodes are walked from again and every deposit is added where it belongs. The order
of all sums is fixed: start nodes are cut into chunks, whose number does not depend on that of the threads,
and the sums of the chunks are added in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks._heads import offsets
from walkernel.walks._sampling import TASK_WALKS, Pool, in_order, walk
from walkernel.walks._spec import WalkSpec
from walkernel.walks.compiling import compiled, subroutine

CHUNKS = 16
"""Chunks of start nodes at most, each with sums of its own while it is walked."""


class Sums(NamedTuple):
    """What deposits are multiplied by, and where they are added; arrays without entries are left out."""

    u: NDArray[np.float64]  # (c, columns)
    v: NDArray[np.float64]  # (rows, c)
    gathered: NDArray[np.float64]  # (rows, c, groups), filled
    scattered: NDArray[np.float64]  # (c, groups, columns), added to


@compiled
def number_columns(n: int, nodes: Any, values: NDArray[np.float64], columns: NDArray[np.int32]) -> None:
    """Turn nodes into columns, in place; deposits on nodes without one (-1) become zero."""
    for q in range(n):
        column = columns[nodes[q]]
        nodes[q] = max(column, 0)
        if column < 0:
            values[q] = 0.0


@compiled
def add_deposits(
    n_groups: int, starts: NDArray[np.int64], nodes: Any, values: NDArray[np.float64], sums: Sums
) -> None:
    """Add the deposits of some rows; group by group, so that what is added to stays in the cache."""
    rows = (starts.size - 1) // n_groups
    for c in range(max(sums.u.shape[0], sums.v.shape[1])):
        for g in range(n_groups):
            for row in range(rows):
                first, last = starts[row * n_groups + g], starts[row * n_groups + g + 1]
                if sums.u.size:
                    u, total = sums.u[c], 0.0
                    for q in range(first, last):
                        total += values[q] * u[nodes[q]]
                    sums.gathered[row, c, g] = total
                if sums.v.size:
                    target, weight = sums.scattered[c, g], sums.v[row, c]
                    for q in range(first, last):
                        target[nodes[q]] += weight * values[q]


@compiled
def multiply_groups(
    first: int,
    last: int,
    indptr: Any,
    indices: Any,
    data: NDArray[np.float64],
    sizes: NDArray[np.float64],  # (columns,)
    groups: NDArray[np.float32],  # (columns, groups), within [-1, 1]
    total: NDArray[np.float32],  # (groups,), overwritten
    out: NDArray[np.float64],  # (rows, groups), filled
) -> None:
    """Fill the product of some rows of a CSR matrix with diag(sizes) · groups, a dense matrix of few columns.

    Sums are in single precision and relative to the largest term of their row, whatever the units are.
    """
    for row in range(first, last):
        begin, end = indptr[row], indptr[row + 1]
        unit = largest_term(begin, end, indices, data, sizes)
        inverse = 1.0 / unit
        for g in range(total.size):
            total[g] = 0.0
        for q in range(begin, end):
            value, own = np.float32(data[q] * sizes[indices[q]] * inverse), groups[indices[q]]
            for g in range(total.size):
                total[g] += value * own[g]
        for g in range(total.size):
            out[row, g] = unit * total[g]


@subroutine
def largest_term(
    begin: int, end: int, nodes: Any, values: NDArray[np.float64], sizes: NDArray[np.float64]
) -> float:
    """Return the largest |value| · size of some entries, or one if all are zero or nearly subnormal."""
    largest = 0.0
    for q in range(begin, end):
        largest = max(largest, abs(values[q]) * sizes[nodes[q]])
    return largest if largest > 1e-300 else 1.0


@subroutine
def square_row(
    first: int,
    n_groups: int,
    starts: NDArray[np.int64],
    nodes: Any,
    values: NDArray[np.float64],
    sizes: NDArray[np.float64],  # (columns,)
    others: NDArray[np.float32],  # (columns, others), within [-1, 1]
    products: NDArray[np.float32],  # (groups, others), filled
) -> float:
    """Return the root of Σ over groups g and others h of (φ_g·d_h − mean over g)², d = sizes · others."""
    for g in range(n_groups):
        for h in range(products.shape[1]):
            products[g, h] = 0.0
    unit = largest_term(starts[first], starts[first + n_groups], nodes, values, sizes)
    inverse = 1.0 / unit
    for g in range(n_groups):
        own = products[g]
        for q in range(starts[first + g], starts[first + g + 1]):
            value, other = np.float32(values[q] * sizes[nodes[q]] * inverse), others[nodes[q]]
            for h in range(own.size):
                own[h] += value * other[h]
    total = 0.0
    for h in range(products.shape[1]):
        mean = 0.0
        for g in range(n_groups):
            mean += products[g, h] / n_groups
        for g in range(n_groups):
            total += (products[g, h] - mean) ** 2
    return unit * np.sqrt(total)


@compiled
def square_rows(
    n_groups: int,
    starts: NDArray[np.int64],
    nodes: Any,
    values: NDArray[np.float64],
    sizes: NDArray[np.float64],
    others: NDArray[np.float32],
    products: NDArray[np.float32],  # (groups, others), overwritten
    out: NDArray[np.float64],  # (rows,), filled
) -> None:
    """Fill ``square_row`` of some rows."""
    for row in range(out.size):
        out[row] = square_row(row * n_groups, n_groups, starts, nodes, values, sizes, others, products)


@dataclass(frozen=True, eq=False)
class Projection:
    """Walks that are walked again in groups, and the columns that their deposits go to.

    Parameters
    ----------
    factors : ndarray, (laws, steps + 1)
        What the load of a deposit is multiplied by.
    columns : ndarray of int32, (n_nodes,), or None
        The column of each node, -1 for none; None if nodes are columns.
    """

    spec: WalkSpec
    factors: NDArray[np.float64]
    n_groups: int
    columns: NDArray[np.int32] | None
    n_columns: int
    n_threads: int

    def project(
        self,
        u: NDArray[np.float64],  # (c, columns), or empty
        v: NDArray[np.float64],  # (starts, c), or empty
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (gathered, scattered), empty where there is no u or no v."""
        G = self.n_groups
        gathered = np.empty((self.spec.ids.size, u.shape[0], G) if u.size else (0, 0, 0))
        scattered = np.zeros((v.shape[1], G, self.n_columns) if v.size else (0, 0, 0))

        def work(parts: list[slice]) -> NDArray[np.float64]:
            own = np.zeros_like(scattered)
            for part, deposits in self._walk(parts):
                add_deposits(G, *deposits, Sums(u, v[part], gathered[part], own))
            return own

        for own in self._in_turn(work):
            scattered += own
        return gathered, scattered

    def product_norms(self, sizes: NDArray[np.float64], others: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the root of Σ over groups g and columns h of d of (φ_ig·d_h − mean over g)², (starts,).

        d = diag(sizes) · others, with entries of ``others`` within [−1, 1].
        """
        result = np.empty(self.spec.ids.size)

        def work(parts: list[slice]) -> NDArray[np.float64]:
            products = np.empty((self.n_groups, others.shape[1]), dtype=np.float32)
            for part, deposits in self._walk(parts):
                square_rows(self.n_groups, *deposits, sizes, others, products, result[part])
            return result

        for _ in self._in_turn(work):
            pass
        return result

    def _walk(self, parts: list[slice]) -> Iterator[tuple[slice, tuple[NDArray[Any], ...]]]:
        """Walk task by task: (rows, (where the deposits of groups begin, nodes, values))."""
        pool = Pool([self.spec.table.indices.dtype, np.float64])
        for part in parts:
            own = self.spec.at(self.spec.ids[part])
            walked = walk(own, self.factors, own.heads()[1], pool)
            nodes, values = walked.arrays
            if self.columns is not None:
                number_columns(walked.n, nodes, values, self.columns)
            yield part, (offsets(walked.counts(self.n_groups)), nodes, values)
            pool.give_back([nodes, values])

    def _in_turn(self, work: Callable[[list[slice]], NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
        """Yield the results of all chunks in order; no more of them are held than twice the threads."""
        step, n = max(1, TASK_WALKS // self.spec.n_walks), self.spec.ids.size
        tasks = [slice(first, min(first + step, n)) for first in range(0, n, step)]
        size = -(-len(tasks) // CHUNKS)
        chunks = [tasks[first : first + size] for first in range(0, len(tasks), size)]
        return in_order(work, chunks, self.n_threads, ahead=2)
