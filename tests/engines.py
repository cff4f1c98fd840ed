"""Engines of the tests: the paper's Algorithm 1 line by line, and processes of this machine."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise

import numpy as np

from oracles import algorithm_one, exact_levels, headed_walks
from walkernel.engines import CPU, Engine
from walkernel.features import HostRecord
from walkernel.walks import Deposits, Head, WalkSpec, concatenate


@dataclass(frozen=True)
class Reference(Engine):
    """Algorithm 1 on dense matrices: the same nodes and lengths as any engine, loads to rounding."""

    def record(self, spec, progress=None):
        A, M = (spec.graph.to_scipy(matrix).toarray() for matrix in ("adjacency", spec.matrix))
        A = M if spec.matrix == "combinatorial" else A
        if spec.transpose and spec.graph.directed:
            A, M = A.T, M.T
        sampler, thresholds = spec.sampler, [int(x) for x in spec.law.thresholds]
        settings = {"seed": spec.seed, "stream": spec.stream, "transition": sampler.transition}
        settings["shares"] = sampler.coupling
        walks, heads = [], []
        for start in spec.ids.tolist():
            if sampler.head:
                walks.append(headed_walks(A, M, start, spec.n_walks, thresholds, sampler.head, **settings))
                levels = exact_levels(A, M, start, sampler.head, sampler.transition)
                heads.append([(v, k, x[0]) for k, level in enumerate(levels, 1) for v, x in level.items()])
            else:
                walks.append(algorithm_one(A, M, start, spec.n_walks, thresholds, **settings))
                heads.append([])
        edges = np.array([_edges(A, start, sampler.head) for start in spec.ids])
        record = _arrays([list(chain(*own)) for own in walks], spec)
        head = Head(*_arrays(heads, spec), edges)
        return HostRecord(Deposits(*record, head), spec.n_walks, spec.graph.n_nodes)


def _arrays(rows, spec):
    """Return indptr, nodes, lengths and loads, those of M / scale."""
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    nodes, lengths, loads = (np.array([d[i] for row in rows for d in row]) for i in range(3))
    loads = loads / spec.scale**lengths if lengths.size else np.empty(0)
    return indptr, nodes.astype(spec.graph.indices.dtype), lengths.astype(np.int32), loads


def _edges(A, start, head):
    """Return the number of edges that a head follows."""
    levels = [{start: None}, *exact_levels(A, A, start, head)[:-1]] if head else []
    return sum(np.count_nonzero(A[node]) for level in levels for node in level)


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
