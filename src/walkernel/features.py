"""The record of the walks, and its product with a modulation function: sparse features Φ.

A walk from node i leaves deposits (node, length, load) whose loads do not depend on any kernel, and

    Φ_f[i, v] = (1/n_walks) Σ_deposits of i on v  load · f(length),

is linear in f: sample once, then every kernel, every lengthscale and every learned f is a re-weighting.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike, NDArray

from walkernel._checks import Described, check_distinct, check_instance, refuse, thread_count, whole_number
from walkernel._door import door
from walkernel._files import atomic_write
from walkernel.convergence import Modulated, check_convergence, check_matrix, warn_of_infinite_variance
from walkernel.graph import Graph
from walkernel.updating import update_walks
from walkernel.walks import (
    Deposits,
    Head,
    Rows,
    Terms,
    WalkSpec,
    concatenate,
    identity,
    sampler_fields,
    sampler_from,
    sort_terms,
)
from walkernel.weights import KernelOrF, Lazy, Symmetric, as_weights

FORMAT = "walkernel walks 3"
SETTINGS = ("n_walks", "seed", "stream", "matrix", "transpose")


@dataclass(frozen=True, eq=False, repr=False)
class Walks(WalkSpec):
    """Sampled walks: what ``sample_walks`` returns.

    Attributes
    ----------
    graph : Graph
        The graph walked on.
    ids : ndarray of int64, (n,)
        Start nodes.
    n_walks : int
        Walks from each start node.
    sampler, seed, stream, matrix, transpose
        As given to ``sample_walks``.
    deposits : Deposits
        ``indptr`` (n + 1,), ``nodes``, ``lengths`` and ``loads``; the deposits of a start node stand
        walk by walk, and length 0 opens a walk. On the adjacency matrix the loads are those of A / scale.
        ``head`` is what the exact head of a sampler that has one left, in arrays of the same names.
    n_rewalked : int
        How many walks the last ``update`` walked again; 0 before any.
    """

    deposits: Deposits = field(kw_only=True)
    n_rewalked: int = field(default=0, init=False)

    @property
    def nodes(self) -> NDArray[Any]:
        """Start nodes by the addressing rule: labels if the graph has them, else ids."""
        return self.graph.names(self.ids)

    @property
    def n_steps(self) -> int:
        """Number of steps walked, and of edges that exact heads followed."""
        walked = self.deposits.nodes.size - self.ids.size * self.n_walks
        return walked + int(self.deposits.head.edges.sum())

    def __repr__(self) -> str:
        return (
            f"Walks({self.ids.size} nodes x {self.n_walks} walks, {self.n_steps} steps, {self.sampler}, "
            f"seed={self.seed}, stream={self.stream}, matrix={self.matrix!r})"
        )

    @door
    def features(
        self, kernel_or_f: KernelOrF, *, rows: ArrayLike | None = None, dtype: DTypeLike = np.float64
    ) -> scipy.sparse.csr_array:
        """Return the sparse features Φ_f of all start nodes, or of some.

        The first call sorts the deposits; every further one, for another f, is a single pass over them.

        Parameters
        ----------
        kernel_or_f : Kernel, array of float or callable
            A kernel stands for its symmetric modulation. An array is exactly that sequence, zero
            beyond its end. A callable takes an array of lengths.
        rows : array of int, optional
            Positions among ``nodes`` of the rows to make; all if not given.
        dtype : dtype
            float64 or float32.

        Returns
        -------
        csr_array, (len(nodes), n_nodes) or (len(rows), n_nodes)

        Examples
        --------
        >>> import walkernel as wk
        >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)])
        >>> wk.sample_walks(graph, 8, seed=1).features(wk.Diffusion()).shape
        (3, 3)
        """
        try:
            known = np.dtype(dtype) in (np.float64, np.float32)
        except TypeError:
            known = False
        if not known:
            refuse("features", "dtype", "float64 or float32", dtype)
        f = self.modulation(kernel_or_f) / self.n_walks
        weighted = self.terms.weighted(f, self._positions(rows), thread_count("features", None))
        matrix = to_csr(weighted, self.graph.n_nodes)
        return matrix if matrix.dtype == dtype else matrix.astype(dtype)

    def _positions(self, rows: ArrayLike | None) -> NDArray[np.int64]:
        """Check positions of rows."""
        if rows is None:
            return np.arange(self.ids.size)
        array = np.asarray(rows)
        rule = f"a flat list of whole numbers from 0 to {self.ids.size - 1}"
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            refuse("features", "rows", rule, rows, error=TypeError)
        if array.size and (array.min() < 0 or array.max() >= self.ids.size):
            refuse("features", "rows", rule, rows)
        return array.astype(np.int64)

    @cached_property
    def terms(self) -> Terms:
        """Where each deposit goes, found when features are first asked for."""
        return sort_terms(self.deposits, self.n_walks, thread_count("features", None))

    def modulation(self, kernel_or_f: KernelOrF) -> NDArray[np.float64]:
        """Return f(0) … f(longest walk) of a kernel, an array or a callable."""
        return modulation_values(self, kernel_or_f, self._longest + 1)

    @cached_property
    def _longest(self) -> int:
        return max(self.sampler.head, int(self.deposits.lengths.max(initial=0)))

    def update(
        self,
        new_graph: Graph,
        *,
        n_threads: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Walks:
        """Bring the walks to a graph that has changed, **in place**: few of them are walked again.

        They are then, bit for bit, what ``sample_walks(new_graph, …)`` with the same arguments returns, but
        only walks that touched a changed node were walked again. These walks themselves change, as by
        ``dict.update``, and the arrays of ``deposits`` with them; to keep the old ones, update a copy:
        ``copy.deepcopy(walks).update(new_graph)``. An update that fails or is interrupted changes nothing.

        Parameters
        ----------
        new_graph : Graph
            The graph as it is now; edges, weights and nodes may differ. Nodes are known by name. Walks from
            all nodes stay walks from all nodes: those of new nodes come last, those of nodes that are gone
            are dropped. Walks from chosen nodes stay with these, and a graph without one of them is refused.
            Where names stand in another order than before, everything is walked again; rows keep theirs.
        n_threads : int, optional
            WALKERNEL_NUM_THREADS or the CPUs of this process if not given.
        progress : callable, optional
            Called with (walks done, walks to be walked again) after each block of them.

        Returns
        -------
        Walks
            These walks themselves; ``n_rewalked`` tells how many were walked again.

        Examples
        --------
        >>> import walkernel as wk
        >>> ring = [(i, (i + 1) % 100) for i in range(100)]
        >>> walks = wk.sample_walks(wk.Graph.from_edges(ring), 8)
        >>> walks.update(wk.Graph.from_edges([*ring, (0, 2)])) is walks
        True
        >>> walks.graph.n_edges, 0 < walks.n_rewalked < 100
        (101, True)
        """
        spec, result = update_walks(self, new_graph, n_threads, progress)
        for name in ("terms", "_longest", "_shared"):
            self.__dict__.pop(name, None)
        self.forget_tables()
        new = {"graph": new_graph, "ids": spec.ids, "n_rewalked": result.n_walks}
        self.__dict__.update(new, deposits=result.write())
        return self

    def in_groups(self, n_groups: int) -> Walks:
        """Return the walks of each node in equal groups, as if each group had a start node of its own.

        Row i · n_groups + g of the features is that of group g of start node i.
        """
        n_groups = whole_number("in_groups", "n_groups", n_groups, 1)
        if self.n_walks % n_groups:
            refuse("in_groups", "n_groups", f"a divisor of {self.n_walks}, the number of walks", n_groups)
        opens = np.flatnonzero(self.deposits.lengths == 0)
        size = self.n_walks // n_groups
        indptr = np.append(opens[::size], self.deposits.nodes.size)
        groups = replace(
            self,
            ids=np.repeat(self.ids, n_groups),
            n_walks=size,
            deposits=self.deposits._replace(indptr=indptr, head=self.deposits.head.repeated(n_groups)),
        )
        vars(self)["_shared"] = vars(groups)["_shared"] = True  # an update may not write to their arrays
        return groups

    @staticmethod
    def concatenate(parts: Sequence[Walks]) -> Walks:
        """Join walks from different nodes that agree in everything else."""
        if not parts:
            refuse("Walks.concatenate", "parts", "at least one Walks", list(parts))
        for part in parts:
            check_instance("Walks.concatenate", "parts", part, Walks)
        first = parts[0]
        for part in parts[1:]:
            for name in ("sampler", *SETTINGS):
                here, there = getattr(first, name), getattr(part, name)
                if here != there:
                    refuse("Walks.concatenate", name, f"the same in all parts ({here!r})", there)
            if first.graph is not part.graph and identity(first.graph) != identity(part.graph):
                refuse("Walks.concatenate", "graph", "the same in all parts", part.graph)
        ids = np.concatenate([part.ids for part in parts])
        check_distinct("Walks.concatenate", "nodes", ids, first.graph.names)
        return replace(first, ids=ids, deposits=concatenate([part.deposits for part in parts]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the walks to an ``.npz`` file; the graph is not written, only its fingerprint."""
        about = {
            "format": FORMAT,
            "graph": identity(self.graph),
            "sampler": sampler_fields(self.sampler),
            **{name: getattr(self, name) for name in SETTINGS},
        }
        *walked, head = self.deposits
        arrays = {"about": np.array(json.dumps(about)), "ids": self.ids}
        arrays |= dict(zip(Deposits._fields, walked, strict=False))
        arrays |= {f"head_{name}": array for name, array in head._asdict().items()}
        with atomic_write(path) as file:
            np.savez(file, allow_pickle=False, **arrays)

    @staticmethod
    def load(path: str | os.PathLike[str], graph: Graph) -> Walks:
        """Read walks written by ``save``; ``graph`` must be the graph they were sampled on."""
        check_instance("Walks.load", "graph", graph, Graph)
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                about = dict(json.loads(str(file["about"])))
                head = Head(*(file[f"head_{name}"] for name in Head._fields))
                ids, arrays = file["ids"], [file[name] for name in Deposits._fields[:-1]]
        except (ValueError, TypeError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            if isinstance(error, FileNotFoundError):
                raise
            refuse(
                "Walks.load", "path", "an intact file written by Walks.save", Described(f"{path} ({error})")
            )
        if about.get("format") != FORMAT or not {"graph", "sampler", *SETTINGS} <= about.keys():
            refuse("Walks.load", "path", f"of format {FORMAT!r}", about.get("format"))
        if about["graph"] != identity(graph):
            refuse("Walks.load", "graph", "the graph these walks were sampled on", graph)
        settings = {name: about[name] for name in SETTINGS}
        deposits = Deposits._make([*arrays, head])
        return Walks(graph, ids, sampler=sampler_from(about["sampler"]), deposits=deposits, **settings)


def to_csr(rows: Rows, n_columns: int) -> scipy.sparse.csr_array:
    """Return rows as a SciPy array without exact zeros; its indices are in the order of first visits.

    Rows with numbers that overflowed are refused.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(rows.data.sum()) or np.isfinite(rows.data).all()
    if not is_finite:
        remedy = "Scale the kernel or the weights of the graph, or use matrix='normalized'."
        refuse("features", "f", "small enough for loads times f to be numbers", Described("overflow"), remedy)
    small = max(rows.data.size, n_columns) <= np.iinfo(np.int32).max
    indptr = rows.indptr.astype(np.int32) if small else rows.indptr  # one index type, or SciPy copies
    shape = (rows.indptr.size - 1, n_columns)
    matrix = scipy.sparse.csr_array((rows.data, rows.indices, indptr), shape=shape)
    matrix.has_canonical_format = False
    if not rows.data.all():
        matrix.eliminate_zeros()
    return matrix


def modulation_values(spec: WalkSpec, kernel_or_f: KernelOrF, length: int) -> NDArray[np.float64]:
    """Return f(0) … f(length − 1) of a kernel (checked against the walks), an array or a callable.

    They are given for the loads of the walk table, which are those of M / scale: f(k) · scaleᵏ.
    """
    weights = as_weights(kernel_or_f)
    if isinstance(weights, Symmetric | Lazy):
        check_matrix("features", weights.kernel, spec.matrix)
    if isinstance(weights, Symmetric):
        check_convergence(spec.graph, weights.kernel)
    f = weights.values(length, spec.scale)
    if isinstance(weights, Symmetric):
        warn_of_infinite_variance(Modulated(spec.graph, weights, (spec.transpose,)), spec.sampler)
    return f
