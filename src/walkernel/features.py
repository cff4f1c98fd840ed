"""The record of the walks, and its product with a modulation function: sparse features Φ.

A walk from node i leaves deposits (node, length, load) whose loads do not depend on any kernel, and

    Φ_f[i, v] = (1/n_walks) Σ_deposits of i on v  load · f(length),

is linear in f: sample once, then every kernel, every lengthscale and every learned f is a re-weighting.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike, NDArray

from walkernel._checks import (
    MATRICES,
    Described,
    distinct,
    flag,
    instance,
    one_of,
    progress_callback,
    real_array,
    refuse,
    thread_count,
    whole_number,
)
from walkernel._random import check_seed, check_stream
from walkernel.convergence import check_convergence, check_matrix, warn_of_infinite_variance
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.walks import Deposits, IndependentWalks, Request, concatenate, sample_deposits, walk_table

FORMAT = "walkernel walks 1"
SETTINGS = ("n_walks", "seed", "stream", "matrix", "transpose")
MOST_WALKS = 2**32 - 2

Modulation = Kernel | ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]


@dataclass(frozen=True, eq=False)
class Walks:
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
        walk by walk, and length 0 opens a walk.
    """

    graph: Graph
    ids: NDArray[np.int64]
    n_walks: int
    sampler: IndependentWalks
    seed: int
    stream: int
    matrix: str
    transpose: bool
    deposits: Deposits

    @property
    def nodes(self) -> NDArray[Any]:
        """Start nodes by the addressing rule: labels if the graph has them, else ids."""
        return self.graph.names(self.ids)

    @property
    def n_steps(self) -> int:
        """Number of steps walked."""
        return self.deposits.nodes.size - self.ids.size * self.n_walks

    def __repr__(self) -> str:
        return (
            f"Walks({self.ids.size} nodes x {self.n_walks} walks, {self.n_steps} steps, {self.sampler}, "
            f"seed={self.seed}, stream={self.stream}, matrix={self.matrix!r})"
        )

    def features(self, kernel_or_f: Modulation, *, dtype: DTypeLike = np.float64) -> scipy.sparse.csr_array:
        """Return the sparse features Φ_f, of shape (len(nodes), n_nodes).

        Parameters
        ----------
        kernel_or_f : Kernel, array of float or callable
            A kernel stands for its symmetric modulation. An array is exactly that sequence, zero
            beyond its end. A callable takes an array of lengths.
        dtype : dtype
            float64 or float32.

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
        weighted = self.deposits.loads * self.modulation(kernel_or_f)[self.deposits.lengths] / self.n_walks
        matrix = self._coalesced(weighted, self.deposits.indptr, self.ids.size)
        return matrix if matrix.dtype == dtype else matrix.astype(dtype)

    def modulation(self, kernel_or_f: Modulation) -> NDArray[np.float64]:
        """Return f(0) … f(longest walk) of a kernel, an array or a callable."""
        n = 1 + (int(self.deposits.lengths.max()) if self.deposits.lengths.size else 0)
        if isinstance(kernel_or_f, Kernel):
            check_matrix("features", kernel_or_f, self.matrix)
            check_convergence(self.graph, kernel_or_f)
            f = kernel_or_f.modulation(n)
            radius = kernel_or_f.power_radius(0.5)
            warn_of_infinite_variance(self.graph, self.sampler, self.matrix, radius, str(kernel_or_f))
            return f
        values = kernel_or_f(np.arange(n)) if callable(kernel_or_f) else kernel_or_f
        f = real_array("features", "f", values, ndim=1)
        if callable(kernel_or_f) and f.size != n:
            refuse("features", "f", f"one value for each of {n} lengths", f)
        result = np.zeros(n)
        result[: min(n, f.size)] = f[:n]
        return result

    def squared_walk_norms(self, kernel_or_f: Modulation) -> NDArray[np.float64]:
        """Return Σₖ ‖φ_i^(k)‖² over the single walks k of each start node i, shape (len(nodes),)."""
        weighted = self.deposits.loads * self.modulation(kernel_or_f)[self.deposits.lengths]
        opens = np.append(np.flatnonzero(self.deposits.lengths == 0), self.deposits.lengths.size)
        single = self._coalesced(weighted, opens, self.ids.size * self.n_walks)
        norms = np.asarray(single.multiply(single).sum(axis=1))
        return norms.reshape(self.ids.size, self.n_walks).sum(axis=1)

    def _coalesced(
        self, values: NDArray[np.float64], indptr: NDArray[np.int64], n_rows: int
    ) -> scipy.sparse.csr_array:
        """Return the deposits as a CSR matrix with one entry for each node that a row reached."""
        shape = (n_rows, self.graph.n_nodes)
        matrix = scipy.sparse.csr_array((values, self.deposits.nodes.copy(), indptr.copy()), shape=shape)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

    @staticmethod
    def concatenate(parts: Sequence[Walks]) -> Walks:
        """Join walks from different nodes that agree in everything else."""
        if not parts:
            refuse("Walks.concatenate", "parts", "at least one Walks", list(parts))
        for part in parts:
            instance("Walks.concatenate", "parts", part, Walks)
        first = parts[0]
        for part in parts[1:]:
            for name in ("graph", "n_walks", "sampler", "seed", "stream", "matrix", "transpose"):
                here, there = getattr(first, name), getattr(part, name)
                if here is not there and (name == "graph" or here != there):
                    refuse("Walks.concatenate", name, f"the same in all parts ({here!r})", there)
        ids = np.concatenate([part.ids for part in parts])
        distinct("Walks.concatenate", "nodes", ids, first.graph.names)
        return replace(first, ids=ids, deposits=concatenate([part.deposits for part in parts]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the walks to an ``.npz`` file; the graph is not written, only its fingerprint."""
        about = {
            "format": FORMAT,
            "graph": self.graph.fingerprint,
            "sampler": asdict(self.sampler),
            **{name: getattr(self, name) for name in SETTINGS},
        }
        arrays = {"about": np.array(json.dumps(about)), "ids": self.ids, **self.deposits._asdict()}
        target = Path(path)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @staticmethod
    def load(path: str | os.PathLike[str], graph: Graph) -> Walks:
        """Read walks written by ``save``; ``graph`` must be the graph they were sampled on."""
        instance("Walks.load", "graph", graph, Graph)
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                about = dict(json.loads(str(file["about"])))
                ids, deposits = file["ids"], Deposits(*(file[name] for name in Deposits._fields))
        except (ValueError, TypeError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            if isinstance(error, FileNotFoundError):
                raise
            refuse(
                "Walks.load", "path", "an intact file written by Walks.save", Described(f"{path} ({error})")
            )
        if about.get("format") != FORMAT or not {"graph", "sampler", *SETTINGS} <= about.keys():
            refuse("Walks.load", "path", f"of format {FORMAT!r}", about.get("format"))
        if about["graph"] != graph.fingerprint:
            refuse("Walks.load", "graph", "the graph these walks were sampled on", graph)
        settings = {name: about[name] for name in SETTINGS}
        return Walks(graph, ids, sampler=IndependentWalks(**about["sampler"]), deposits=deposits, **settings)


def sample_walks(
    graph: Graph,
    n_walks: int,
    *,
    sampler: IndependentWalks | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str = "normalized",
    transpose: bool = False,
    n_threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Walks:
    """Sample random walks; they depend on the graph, the sampler and the seed, and on no kernel.

    The same seed gives the same walks for any number of threads, any choice and order of nodes and
    on any machine, and 32 walks begin with the same 16.

    Parameters
    ----------
    graph : Graph
        The graph.
    n_walks : int
        Walks from each node.
    sampler : IndependentWalks, optional
        How walks are drawn; ``IndependentWalks(p_halt=0.1)`` if not given.
    seed, stream : int
        Key of the randomness, 64 and 16 bits; different streams are independent.
    nodes : list of nodes, optional
        Start nodes, by the addressing rule; all nodes if not given.
    matrix : {"normalized", "adjacency", "combinatorial"}
        The matrix M whose entries the loads multiply.
    transpose : bool
        Walk Mᵀ, against the direction of the edges: the right-hand side of a directed kernel.
    n_threads : int, optional
        WALKERNEL_NUM_THREADS or the CPUs of this process if not given.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> walks = wk.sample_walks(graph, n_walks=100, nodes=["d", "a"])
    >>> walks.features(wk.Diffusion(sigma=1.0)).shape
    (2, 4)
    """
    owner = "sample_walks"
    instance(owner, "graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    n_walks = whole_number(owner, "n_walks", n_walks, 1, MOST_WALKS)
    sampler = IndependentWalks() if sampler is None else sampler
    instance(owner, "sampler", sampler, IndependentWalks)
    seed, stream = check_seed(owner, seed), check_stream(owner, stream)
    one_of(owner, "matrix", matrix, MATRICES)
    flag(owner, "transpose", transpose)
    ids = np.arange(graph.n_nodes) if nodes is None else graph.ids(nodes)
    distinct(owner, "nodes", ids, graph.names)
    table = walk_table(graph, matrix, sampler.transition, transpose)
    request = Request(table, sampler.thresholds(), n_walks, seed, stream)
    deposits = sample_deposits(
        request, ids, thread_count(owner, n_threads), progress_callback(owner, progress)
    )
    return Walks(graph, ids, n_walks, sampler, seed, stream, matrix, bool(transpose), deposits)
