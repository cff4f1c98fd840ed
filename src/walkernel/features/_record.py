"""The record of the walks, and its product with a modulation function: sparse features Φ.

A walk from node i leaves deposits (node, length, load) whose loads do not depend on any kernel, and

    Φ_f[i, v] = (1/n_walks) Σ_deposits of i on v  load · f(length),

is linear in f: sample once, then every kernel, every lengthscale and every learned f is a re-weighting.
"""

from __future__ import annotations

import json
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike, NDArray

from walkernel._checks import (
    Described,
    check_distinct,
    check_instance,
    progress_callback,
    refuse,
    whole_number,
)
from walkernel._door import door
from walkernel._files import atomic_write
from walkernel._threads import thread_count
from walkernel.features._changed_starts import follow_starts, keeps_names
from walkernel.features._convergence import check_convergence, check_matrix
from walkernel.features._matrix import FeatureMatrix, HostFeatures
from walkernel.features._variance import Modulated, warn_of_infinite_variance
from walkernel.features._weights import KernelOrF, Lazy, Symmetric, as_weights
from walkernel.graph import Graph
from walkernel.walks import (
    Deposits,
    Head,
    Rows,
    Terms,
    WalkSpec,
    concatenate,
    count_walks,
    identity,
    report_walks,
    rewalk,
    sample_deposits,
    sampler_fields,
    sampler_from,
    sort_terms,
)

FORMAT = "walkernel walks 4"
SETTINGS = ("n_walks", "seed", "stream", "matrix", "transpose")


class Record(ABC):
    """What walks left behind, wherever it is kept."""

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Number of steps walked, and of edges that exact heads followed."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Length of the longest walk, a head included."""

    @property
    @abstractmethod
    def deposits(self) -> Deposits:
        """The deposits in the memory of this process."""

    @abstractmethod
    def weigh(self, f: NDArray[np.float64], rows: NDArray[np.int64] | None = None) -> FeatureMatrix:
        """Return the features of all start nodes, or of some, for f / n_walks."""

    @abstractmethod
    def sample_again(self, spec: WalkSpec, progress: Callable[[int, int], object] | None) -> Record:
        """Sample other walks where these were sampled."""


class HostRecord(Record):
    """Deposits in memory, of ``n_walks`` walks from each start node of a graph of ``n_nodes`` nodes."""

    is_shared = False
    """Whether another record has the same arrays, so that an update may not write to them."""

    def __init__(self, deposits: Deposits, n_walks: int, n_nodes: int, n_threads: int | None = None) -> None:
        self._deposits, self.n_walks, self.n_nodes, self.n_threads = deposits, n_walks, n_nodes, n_threads

    @property
    def deposits(self) -> Deposits:
        """The deposits."""
        return self._deposits

    @property
    def n_steps(self) -> int:
        """Number of steps walked, and of edges that exact heads followed."""
        own = self.deposits
        walks = count_walks(self.n_walks, own.head.shifts, own.indptr.size - 1)
        return own.nodes.size - int(walks.sum()) + int(own.head.edges.sum())

    @cached_property
    def longest(self) -> int:
        """Length of the longest walk, a head included."""
        return int(self.deposits.lengths.max(initial=0))

    @cached_property
    def terms(self) -> Terms:
        """Where each deposit goes, found when features are first asked for."""
        return sort_terms(self.deposits, self.n_walks, self._threads)

    def weigh(self, f: NDArray[np.float64], rows: NDArray[np.int64] | None = None) -> HostFeatures:
        """Return the features of all start nodes, or of some, for f / n_walks."""
        positions = np.arange(self.deposits.indptr.size - 1) if rows is None else rows
        found = self.terms.weighted(f, positions, self._threads)
        return HostFeatures(to_csr(found, self.n_nodes), n_threads=self.n_threads)

    def sample_again(self, spec: WalkSpec, progress: Callable[[int, int], object] | None) -> HostRecord:
        """Sample other walks in this process."""
        deposits = sample_deposits(spec, self._threads, progress)
        return HostRecord(deposits, spec.n_walks, spec.graph.n_nodes, self.n_threads)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("terms", "longest")}

    @property
    def _threads(self) -> int:
        return thread_count(self.n_threads)


@dataclass(frozen=True, eq=False, repr=False)
class Walks(WalkSpec):
    """Sampled walks, which give the features of any kernel; ``sample_walks`` returns them.

    Attributes
    ----------
    graph : Graph
        The graph walked on.
    ids : ndarray of int64, (n,)
        Start nodes.
    n_walks : int
        Walks from each start node.
    sampler : Sampler
        How they were drawn.
    seed, stream : int
        Key of the randomness, as given to ``sample_walks``.
    matrix : str
        The matrix M whose entries the loads multiply.
    transpose : bool
        Whether they are walks on Mᵀ.
    record : Record
        What they left behind: in memory, on a device or on a cluster.
    is_native : bool
        Whether ``features`` are given as the engine has them, or always as a SciPy array.
    n_rewalked : int
        How many walks the last ``update`` walked again; 0 before any.

    Examples
    --------
    >>> import walkernel as wk
    >>> walks = wk.sample_walks(wk.load_dataset("karate").graph, n_walks=16)
    >>> [walks.features(wk.Diffusion(sigma)).shape for sigma in (0.5, 1.0)]  # two kernels, one sample
    [(34, 34), (34, 34)]
    >>> walks.deposits.loads.dtype, walks.deposits.nodes.size == walks.deposits.lengths.size
    (dtype('float64'), True)
    """

    record: Record = field(kw_only=True)
    is_native: bool = field(default=True, kw_only=True)
    n_rewalked: int = field(default=0, init=False)

    @property
    def deposits(self) -> Deposits:
        """What the walks left behind, in memory.

        ``indptr`` (n + 1,), ``nodes``, ``lengths`` and ``loads``; the deposits of a start node stand walk by
        walk, and length 0 opens a walk. On the adjacency matrix the loads are those of A / scale. ``head`` is
        what the exact head of a sampler that has one left, in arrays of the same names.
        """
        return self.record.deposits

    @property
    def nodes(self) -> NDArray[Any]:
        """Start nodes: labels if the graph has them, else ids."""
        return self.graph.names(self.ids)

    @property
    def terms(self) -> Terms:
        """Where each deposit goes, in the memory of this process."""
        own = self.record
        host = own if isinstance(own, HostRecord) else HostRecord(own.deposits, self.n_walks, 0)
        return host.terms

    @property
    def n_steps(self) -> int:
        """Number of steps walked, and of edges that exact heads followed."""
        return self.record.n_steps

    def __repr__(self) -> str:
        return (
            f"Walks({self.ids.size} nodes x {self.n_walks} walks, {self.n_steps} steps, {self.sampler}, "
            f"seed={self.seed}, stream={self.stream}, matrix={self.matrix!r})"
        )

    @door
    def features(
        self, kernel_or_f: KernelOrF, *, rows: ArrayLike | None = None, dtype: DTypeLike = np.float64
    ) -> Any:
        r"""Return the sparse features Φ_f of all start nodes, or of some.

        .. math:: \Phi[i, v] = \frac{1}{m} \sum_{\text{walks from } i} \; \sum_{\text{deposits at } v}
            \text{load} \cdot f(\text{length})

        The first call sorts the deposits; every further one, for another f, is a single pass over them.

        Parameters
        ----------
        kernel_or_f : Kernel, array of float or callable
            A kernel stands for its symmetric modulation function. An array is exactly that sequence, zero
            beyond its end. A callable takes an array of lengths.
        rows : array of int, optional
            Positions among ``nodes`` of the rows to make; all if not given.
        dtype : dtype
            float64, or float32 to halve the memory.

        Returns
        -------
        csr_array, (len(nodes), n_nodes) or (len(rows), n_nodes)
            A CSR tensor of a device that was named as engine, a ``FeatureMatrix`` of a cluster.

        Warns
        -----
        InfiniteVarianceWarning
            If the features of these walks have no finite variance for f.

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
            refuse("dtype", "float64 or float32", dtype)
        f = self.modulation(kernel_or_f) / self.n_walks
        found = self.record.weigh(f, self._positions(rows))
        matrix = found.native if self.is_native else found.to_scipy()
        if scipy.sparse.issparse(matrix):
            return matrix if matrix.dtype == dtype else matrix.astype(dtype)
        if np.dtype(dtype) != np.float64:
            remedy = "CUDA(dtype=...) says what a device computes in; .to_scipy() gives a SciPy array."
            refuse("dtype", "float64 where features are not in this process", dtype, remedy)
        return matrix

    def _positions(self, rows: ArrayLike | None) -> NDArray[np.int64] | None:
        """Check positions of rows."""
        if rows is None:
            return None
        array = np.asarray(rows)
        rule = f"a flat list of whole numbers from 0 to {self.ids.size - 1}"
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            refuse("rows", rule, rows, error=TypeError)
        if array.size and (array.min() < 0 or array.max() >= self.ids.size):
            refuse("rows", rule, rows)
        return array.astype(np.int64)

    def modulation(self, kernel_or_f: KernelOrF) -> NDArray[np.float64]:
        """Return f(0) … f(longest walk) of a kernel, an array or a callable."""
        return modulation_values(self, kernel_or_f, max(self.sampler.head, self.record.longest) + 1)

    def update(self, new_graph: Graph, *, progress: Callable[[int, int], object] | None = None) -> Walks:
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
        check_instance("new_graph", new_graph, Graph)
        old, own = WalkSpec(**self.arguments()), self.record
        starts = follow_starts(old.graph, old.ids, new_graph)
        spec, report = replace(old, graph=new_graph, ids=starts.ids), progress_callback(progress)
        record: Record | None = None
        n_rewalked = spec.ids.size * spec.n_walks
        keeps_walks = old.graph.directed == new_graph.directed and keeps_names(old.graph, new_graph)
        if isinstance(own, HostRecord) and keeps_walks:
            threads, in_place = thread_count(own.n_threads), not own.is_shared
            found = rewalk(old, spec, own.deposits, starts, threads, report, in_place=in_place)
            if found is not None:
                deposits, n_rewalked = found
                record = HostRecord(deposits, spec.n_walks, new_graph.n_nodes, own.n_threads)
        if record is None:
            record = own.sample_again(spec, report_walks(report, spec.n_walks, 0, n_rewalked))
        self.forget_tables()
        self.__dict__.update(graph=new_graph, ids=spec.ids, n_rewalked=n_rewalked, record=record)
        return self

    def in_groups(self, n_groups: int) -> Walks:
        """Return the walks of each node in equal groups, as if each group had a start node of its own.

        Row i · n_groups + g of the features is that of group g of start node i.
        """
        n_groups = whole_number("n_groups", n_groups, 1)
        if self.n_walks % n_groups:
            refuse("n_groups", f"a divisor of {self.n_walks}, the number of walks", n_groups)
        own, size = self.deposits, self.n_walks // n_groups
        if own.head.shifts.size and size % self.sampler.coupling.group:
            rule = f"a divisor of {self.n_walks // self.sampler.coupling.group}, the number of groups"
            refuse("n_groups", rule, n_groups)
        walks = count_walks(size, own.head.shifts, self.ids.size)
        opens = np.flatnonzero(own.lengths == 0)
        firsts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.repeat(walks, n_groups))])
        indptr = np.append(opens, own.nodes.size)[firsts]
        grouped = own._replace(indptr=indptr, head=own.head.repeated(n_groups))
        record = HostRecord(grouped, size, self.graph.n_nodes, getattr(self.record, "n_threads", None))
        if isinstance(self.record, HostRecord):
            self.record.is_shared = record.is_shared = True
        return replace(self, ids=np.repeat(self.ids, n_groups), n_walks=size, record=record)

    @staticmethod
    def concatenate(parts: Sequence[Walks]) -> Walks:
        """Join walks from different nodes that agree in everything else."""
        if not parts:
            refuse("parts", "at least one Walks", list(parts))
        for part in parts:
            check_instance("parts", part, Walks)
        first = parts[0]
        for part in parts[1:]:
            for name in ("sampler", *SETTINGS):
                here, there = getattr(first, name), getattr(part, name)
                if here != there:
                    refuse(name, f"the same in all parts ({here!r})", there)
            if first.graph is not part.graph and identity(first.graph) != identity(part.graph):
                refuse("graph", "the same in all parts", part.graph)
        ids = np.concatenate([part.ids for part in parts])
        check_distinct("nodes", ids, first.graph.names)
        joined = concatenate([part.deposits for part in parts])
        return replace(first, ids=ids, record=HostRecord(joined, first.n_walks, first.graph.n_nodes))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the walks to an ``.npz`` file; the graph is not written, only its fingerprint.

        Parameters
        ----------
        path : str or path
            Where to write.
        """
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
        """Read walks written by ``save``.

        Parameters
        ----------
        path : str or path
            The file.
        graph : Graph
            The graph they were sampled on; another one is refused.

        Returns
        -------
        Walks
            The walks.

        Raises
        ------
        ValueError
            If the file is damaged, or of another graph.

        Examples
        --------
        >>> import tempfile, walkernel as wk
        >>> folder, graph = tempfile.TemporaryDirectory(), wk.load_dataset("karate").graph
        >>> wk.sample_walks(graph, 8).save(folder.name + "/walks.npz")
        >>> wk.Walks.load(folder.name + "/walks.npz", graph).n_walks
        8
        >>> folder.cleanup()
        """
        check_instance("graph", graph, Graph)
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                about = dict(json.loads(str(file["about"])))
                head = Head(*(file[f"head_{name}"] for name in Head._fields))
                ids, arrays = file["ids"], [file[name] for name in Deposits._fields[:-1]]
        except (ValueError, TypeError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            if isinstance(error, FileNotFoundError):
                raise
            refuse("path", "an intact file written by Walks.save", Described(f"{path} ({error})"))
        if about.get("format") != FORMAT or not {"graph", "sampler", *SETTINGS} <= about.keys():
            refuse("path", f"of format {FORMAT!r}", about.get("format"))
        if about["graph"] != identity(graph):
            refuse("graph", "the graph these walks were sampled on", graph)
        settings = {name: about[name] for name in SETTINGS}
        deposits = Deposits._make([*arrays, head])
        record = HostRecord(deposits, settings["n_walks"], graph.n_nodes)
        return Walks(graph, ids, sampler=sampler_from(about["sampler"]), record=record, **settings)


def to_csr(rows: Rows, n_columns: int) -> scipy.sparse.csr_array:
    """Return rows as a SciPy array without exact zeros; its indices are in the order of first visits.

    Rows with numbers that overflowed are refused.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(rows.data.sum()) or np.isfinite(rows.data).all()
    if not is_finite:
        remedy = "Scale the kernel or the weights of the graph, or use matrix='normalized'."
        refuse("f", "small enough for loads times f to be numbers", Described("overflow"), remedy)
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
        check_matrix(weights.kernel, spec.matrix)
    if isinstance(weights, Symmetric):
        check_convergence(spec.graph, weights.kernel)
    f = weights.values(length, spec.scale)
    if isinstance(weights, Symmetric):
        warn_of_infinite_variance(Modulated(spec.graph, weights, (spec.transpose,)), spec.sampler)
    return f
