"""What an engine is: one method to write, and all others derived from it.

``record`` samples walks and keeps what they leave behind. Features, the features of groups of walks, and
sums over them follow from records; engines override them where they know a faster way.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import refuse
from walkernel.features import NO_NORMS, FeatureMatrix, HostFeatures, HostRecord, Record, Walks, squared_norms
from walkernel.walks import Deposits, Head, WalkSpec, no_heads

Progress = Callable[[int, int], object]
VARIABLE = "WALKERNEL_ENGINE"
KNOWN = "None, 'cpu', 'cuda', 'cuda:' and a number, or an engine such as walkernel.engines.CPU(2)"


@dataclass(frozen=True, eq=False)
class FeatureJob:
    """Features for one f, of the walks of each of some streams, which all go in the same direction.

    Exact heads that are to be kept apart are one more result, the last, and the others are the walks' share.
    Norms are there only if asked for. Walks in groups have rows of their own for each group of a start node.
    """

    spec: WalkSpec
    f: NDArray[np.float64]
    streams: tuple[int, ...]
    with_norms: bool = False
    separate_heads: bool = False
    n_groups: int = 1

    @property
    def n_results(self) -> int:
        """Number of feature matrices."""
        return len(self.streams) + self.separate_heads

    def part(self, first: int, last: int) -> FeatureJob:
        """Return the same for some of the start nodes."""
        return replace(self, spec=self.spec.part(first, last))


class Engine(ABC):
    """Where walks are sampled and features are kept.

    Engines are values: frozen, compared by their arguments, and cloned by scikit-learn as themselves.

    Attributes
    ----------
    precision : str
        What its numbers are rounded to; features in files that differ in it are not the same.
    n_threads : int or None
        Threads of products in this process; None: WALKERNEL_NUM_THREADS or the CPUs of this process.
    multiplies_matrices : bool
        Whether ``hold`` serves polynomials of a matrix.
    product_speed : float
        How many times faster than a CPU it multiplies by a sparse matrix, about.
    nodes_at_once : int
        Start nodes whose features are made together where those of many are needed only once.
    """

    precision = "float64"
    n_threads: int | None = None
    multiplies_matrices = False
    product_speed = 1.0
    nodes_at_once = 2**15

    @abstractmethod
    def record(self, spec: WalkSpec, progress: Progress | None = None) -> Record:
        """Sample walks and return what they left behind."""

    def walks(self, spec: WalkSpec, progress: Progress | None = None) -> Walks:
        """Sample walks and return them; their features are SciPy arrays."""
        return Walks(**spec.arguments(), record=self.record(spec, progress), is_native=False)

    def features(self, job: FeatureJob, progress: Progress | None = None) -> list[FeatureMatrix]:
        """Return the features of a job."""
        walks = [self.walks(job.spec.on_stream(stream), progress) for stream in job.streams]
        found = [_features_of(own, job) for own in walks]
        found += [_heads_of(walks[0], job)] if job.separate_heads else []
        return [*found]

    def blocks(
        self, job: FeatureJob, ranges: list[tuple[int, int]]
    ) -> Iterator[tuple[int, list[FeatureMatrix]]]:
        """Yield the number of each range of start nodes, in any order, and its features."""
        for number, (first, last) in enumerate(ranges):
            yield number, self.features(job.part(first, last))

    def hold(self, matrix: scipy.sparse.csr_array) -> FeatureMatrix:
        """Return a sparse matrix, to be multiplied in double precision, where products are made."""
        return HostFeatures(matrix, n_threads=self.n_threads)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Explain what fails because of where this engine computes, such as the memory of a device."""
        yield

    def project(
        self,
        job: FeatureJob,
        u: NDArray[np.float64],  # (c, columns), or empty
        v: NDArray[np.float64],  # (starts, c), or empty
        reached: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return φ_ig · u, (starts, c, n_groups), and Σ_i v_i φ_ig, (c, n_groups, columns), or empty arrays.

        φ_ig is the feature of group g of start node i, at the nodes reached (None: at all nodes). What all
        groups of a start node have in common, which is no part of error bars, may be left out.
        """
        G, features = job.n_groups, self._group_features(job, reached)
        rows = features.shape[0]
        gathered = scattered = np.empty((0, 0, 0))
        if u.size:
            gathered = np.moveaxis((features @ u.T).reshape(rows // G, G, -1), 1, 2).copy()
        if v.size:
            place = np.tile(np.arange(G), rows // G), np.arange(rows)
            sums = [scipy.sparse.csr_array((np.repeat(own, G), place), shape=(G, rows)) for own in v.T]
            scattered = np.stack([(own @ features).toarray() for own in sums])
        return gathered, scattered

    def group_spread(
        self,
        job: FeatureJob,
        sizes: NDArray[np.float64],  # (c, columns)
        others: NDArray[np.float32],  # (c, columns, others), within [-1, 1]
        reached: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the root of Σ over g and h of (φ_ig·d_h − mean over g)², (starts, c), d = sizes · others.

        The others stand for the last groups h of the job, and g for all groups before these.
        """
        features, few = self._group_features(job, reached), job.n_groups - others.shape[2]
        features = features[np.arange(features.shape[0]) % job.n_groups < few]
        result = np.empty((job.spec.ids.size, len(sizes)))
        for c, (size, other) in enumerate(zip(sizes, others, strict=True)):
            products = (features @ (size[:, None] * other)).reshape(-1, few, other.shape[1])
            products -= products.mean(axis=1, keepdims=True)
            flat = products.reshape(len(products), -1)
            unit = np.abs(flat).max(axis=1, keepdims=True)
            unit[unit == 0] = 1.0
            result[:, c] = unit[:, 0] * np.sqrt(np.square(flat / unit).sum(axis=1))
        return result

    def _group_features(self, job: FeatureJob, reached: NDArray[np.int64] | None) -> scipy.sparse.csr_array:
        """Return the features of each group of walks of each start node, (starts · n_groups, columns)."""
        found = self.features(job)[0].to_scipy()
        return found if reached is None else found[:, reached]

    @property
    def local(self) -> Engine:
        """The engine that samples groups of walks again, for error bars."""
        return self

    @property
    def cache_key(self) -> Hashable:
        """What walks that are kept depend on: the engine, or as much of it as makes a difference to them."""
        return self

    def __sklearn_clone__(self) -> Engine:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self


def without_entries(head: Head) -> Head:
    """Return heads that tell the numbers of walks alone."""
    return no_heads(head.edges.size, head.nodes.dtype)._replace(shifts=head.shifts)


def _features_of(walks: Walks, job: FeatureJob) -> FeatureMatrix:
    """Return the features of recorded walks as a job wants them."""
    deposits, norms = walks.deposits, NO_NORMS
    kept = deposits._replace(head=without_entries(deposits.head))
    rows = _weighed(walks, kept if job.separate_heads else deposits, job.f, job.n_groups)
    if job.with_norms:
        groups = walks.n_walks // walks.sampler.coupling.group
        parts = _weighed(walks, kept, job.f, groups) / groups
        of_groups = squared_norms(parts).reshape(-1, groups).sum(axis=1)
        of_all = squared_norms(_weighed(walks, kept, job.f, 1))
        norms = np.column_stack([of_groups, of_all])
    return HostFeatures(rows, norms, walks.n_steps, None)


def _heads_of(walks: Walks, job: FeatureJob) -> FeatureMatrix:
    """Return the features of exact heads alone."""
    head, n = walks.deposits.head, walks.ids.size
    values = head.loads * job.f[head.lengths]
    matrix = scipy.sparse.csr_array((values, head.nodes, head.indptr), shape=(n, walks.graph.n_nodes))
    matrix.sum_duplicates()
    return HostFeatures(matrix, n_threads=None)


def _weighed(
    spec: WalkSpec, deposits: Deposits, f: NDArray[np.float64], n_groups: int
) -> scipy.sparse.csr_array:
    """Return the features of the deposits of some walks in groups."""
    record = HostRecord(deposits, spec.n_walks, spec.graph.n_nodes)
    walks = Walks(**spec.arguments(), record=record).in_groups(n_groups)
    return walks.record.weigh(f / walks.n_walks).to_scipy()


def resolve(engine: object) -> Engine:
    """Return the engine that an argument stands for; None is WALKERNEL_ENGINE, or else the CPU."""
    from walkernel.engines._cpu import CPU

    name = os.environ.get(VARIABLE, "").strip() or "cpu" if engine is None else engine
    if isinstance(name, Engine):
        return name
    if name == "cpu":
        return CPU()
    if isinstance(name, str) and (name == "cuda" or name.startswith("cuda:")):
        from walkernel.engines._cuda import CUDA

        return CUDA(name)
    parameter = VARIABLE if engine is None else "engine"
    refuse(parameter, KNOWN, name, error=ValueError if isinstance(name, str) else TypeError)
