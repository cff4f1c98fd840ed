"""Engines of the tests: the paper's Algorithm 1 line by line, and processes of this machine."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise

import numpy as np

import walkernel as wk
from oracles import algorithm_one, headed_walks, pruned_head, unequal_number, whole_head
from walkernel.engines import CPU, Engine
from walkernel.features import HostRecord
from walkernel.walks import Deposits, Head, WalkSpec, concatenate


@dataclass(frozen=True)
class Reference(Engine):
    """Algorithm 1 on dense matrices: the same nodes and lengths as any engine, loads to rounding."""

    def record(self, spec, progress=None):
        A, M = (spec.graph.to_scipy(matrix).toarray() for matrix in ("adjacency", spec.matrix))
        A = M if spec.matrix == "combinatorial" else A
        if spec.transpose and not spec.is_symmetric:
            A, M = A.T, M.T
        sampler, options = spec.sampler, {"seed": spec.seed, "stream": spec.stream}
        options |= {"transition": sampler.transition, "shares": sampler.coupling}
        walks, heads, edges, shifts = [], [], [], []
        for start in spec.ids.tolist():
            number, first = spec.n_walks, spec.table.first[start]
            if isinstance(sampler, wk.PrunedWalks):
                head, followed, places = pruned_head(A, M, start, sampler, first)
                number, share, shift, shares = unequal_number(sampler, first, places, number)
                walks.append(
                    headed_walks(A, M, start, number, places, **options | {"shares": shares}, share=share)
                )
                shifts += [shift] if sampler.unevenness else []
            elif sampler.head:
                head, followed, places = whole_head(A, M, start, sampler)
                walks.append(headed_walks(A, M, start, number, places, **options))
            else:
                thresholds = [int(x) for x in sampler.thresholds()]
                head, followed = [], 0
                walks.append(algorithm_one(A, M, start, number, thresholds, **options))
            heads.append(head)
            edges.append(followed)
        record = _arrays([list(chain(*own)) for own in walks], spec)
        head = Head(*_arrays(heads, spec), np.array(edges), np.array(shifts, dtype=np.int32))
        return HostRecord(Deposits(*record, head), spec.n_walks, spec.graph.n_nodes)


def _arrays(rows, spec):
    """Return indptr, nodes, lengths and loads, those of M / scale."""
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    nodes, lengths, loads = (np.array([d[i] for row in rows for d in row]) for i in range(3))
    loads = loads / spec.scale**lengths if lengths.size else np.empty(0)
    return indptr, nodes.astype(spec.graph.indices.dtype), lengths.astype(np.int32), loads


@dataclass(frozen=True)
class Processes(Engine):
    """Walks in processes of this machine, each with some of the start nodes."""

    n_processes: int = 2

    def record(self, spec, progress=None):
        edges = np.linspace(0, spec.ids.size, self.n_processes + 1).astype(int)
        parts = [spec.part(i, k) for i, k in pairwise(edges) if i < k]
        parts = list(_processes(self.n_processes).map(_deposits, parts))
        return HostRecord(concatenate(parts), spec.n_walks, spec.graph.n_nodes)


@cache
def _processes(n_processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(n_processes)


def _deposits(spec: WalkSpec) -> Deposits:
    return CPU(1).record(spec).deposits
