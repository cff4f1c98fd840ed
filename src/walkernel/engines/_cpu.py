"""The CPU: threads over blocks of start nodes, compiled loops, features in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walkernel._threads import thread_count
from walkernel.engines._base import Engine, FeatureJob, GroupSums, Progress
from walkernel.features import FeatureMatrix, HostFeatures, HostRecord, to_csr
from walkernel.walks import WalkSpec, sample_deposits, sample_rows

FEW_WALKS = 2**16
"""Walks whose features are kept for each group; of more, the walks are walked again for each sum."""


@dataclass(frozen=True)
class CPU(Engine):
    """The CPU of this machine.

    Parameters
    ----------
    n_threads : int, optional
        Threads of walks and products; WALKERNEL_NUM_THREADS or the CPUs of this process, looked up at each
        use, if not given. Results are the same for any number.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> wk.sample_features(graph, wk.Diffusion(), 8, engine=wk.engines.CPU(n_threads=1)).shape
    (34, 34)
    """

    n_threads: int | None = None

    def __post_init__(self) -> None:
        if self.n_threads is not None:
            object.__setattr__(self, "n_threads", thread_count(self.n_threads))

    def record(self, spec: WalkSpec, progress: Progress | None = None) -> HostRecord:
        """Sample walks and keep their deposits in memory."""
        deposits = sample_deposits(spec, self._threads, progress)
        return HostRecord(deposits, spec.n_walks, spec.graph.n_nodes, self.n_threads)

    def features(self, job: FeatureJob, progress: Progress | None = None) -> list[FeatureMatrix]:
        """Return the features of a job; deposits are added up as they come."""
        found = sample_rows(
            job.spec, job.f, self._threads, progress, with_norms=job.with_norms, streams=job.streams,
            separate_heads=job.separate_heads, n_groups=job.n_groups,
        )  # fmt: skip
        n_columns = job.spec.graph.n_nodes
        return [
            HostFeatures(to_csr(rows, n_columns), rows.norms, rows.n_steps, self.n_threads) for rows in found
        ]

    def group_sums(
        self,
        spec: WalkSpec,
        f: NDArray[np.float64],
        n_groups: int,
        few: int,
        reached: NDArray[np.int64] | None,
    ) -> GroupSums:
        """Return sums over the first few groups; many walks are walked again for each of them."""
        if spec.ids.size * spec.n_walks <= FEW_WALKS:
            return super().group_sums(spec, f, n_groups, few, reached)
        from walkernel.walks._projections import Projection

        columns, n_columns = None, spec.graph.n_nodes
        if reached is not None:
            columns, n_columns = np.full(n_columns, -1, dtype=np.int32), max(1, reached.size)
            columns[reached] = np.arange(reached.size)
        walks = spec.first_walks(few * (spec.n_walks // n_groups))
        factors = f / spec.law.survival * (n_groups / spec.n_walks)
        return Projection(walks, factors, few, columns, n_columns, self._threads)

    @property
    def cache_key(self) -> str:
        """The same for any number of threads."""
        return "cpu"

    @property
    def _threads(self) -> int:
        return thread_count(self.n_threads)
