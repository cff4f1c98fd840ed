"""The CPU: threads over blocks of start nodes, compiled loops, features in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from walkernel._threads import thread_count
from walkernel.engines._base import Engine, FeatureJob, Progress
from walkernel.features import FeatureMatrix, HostFeatures, HostRecord, to_csr
from walkernel.walks import WalkSpec, sample_deposits, sample_rows

if TYPE_CHECKING:
    from walkernel.walks._projections import Projection

FEW_WALKS = 2**16
"""Walks whose features are kept for each group; of more, the walks are walked again for each sum."""


@dataclass(frozen=True)
class CPU(Engine):
    """The CPU of this machine: all its cores, or a given number of threads.

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

    multiplies_matrices = True

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

    def project(
        self,
        job: FeatureJob,
        u: NDArray[np.float64],
        v: NDArray[np.float64],
        reached: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sums over the walks of each group; many walks are walked again, without features."""
        if job.spec.ids.size * job.spec.n_walks <= FEW_WALKS:
            return super().project(job, u, v, reached)
        return self._projection(job, job.n_groups, reached).project(u, v)

    def group_spread(
        self,
        job: FeatureJob,
        sizes: NDArray[np.float64],
        others: NDArray[np.float32],
        reached: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the spread of the first groups; many walks are walked again, without features."""
        if job.spec.ids.size * job.spec.n_walks <= FEW_WALKS:
            return super().group_spread(job, sizes, others, reached)
        walks = self._projection(job, job.n_groups - others.shape[2], reached)
        pairs = zip(sizes, map(np.ascontiguousarray, others), strict=True)
        return np.stack([walks.product_norms(*pair) for pair in pairs], axis=1)

    def _projection(self, job: FeatureJob, few: int, reached: NDArray[np.int64] | None) -> Projection:
        """Return the first few groups of walks, to be walked again."""
        from walkernel.walks._projections import Projection

        spec, columns, n_columns = job.spec, None, job.spec.graph.n_nodes
        if reached is not None:
            columns, n_columns = np.full(n_columns, -1, dtype=np.int32), max(1, reached.size)
            columns[reached] = np.arange(reached.size)
        walks = spec.first_walks(few * (spec.n_walks // job.n_groups))
        factors = spec.law.factors(job.f * (job.n_groups / spec.n_walks))
        return Projection(walks, factors, few, columns, n_columns, self._threads)

    @property
    def cache_key(self) -> str:
        """The same for any number of threads."""
        return "cpu"

    @property
    def _threads(self) -> int:
        return thread_count(self.n_threads)
