"""Features in files: written block by block, gone on with after any end, read a block at a time.

A folder has ``manifest.json``, which says what decides the bits of all blocks, and a file for each block of
rows. A block is there or it is not; one that is there is never made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._block_files import Block, damaged, digest_of, exclusive, write_block
from walkernel._checks import Described, progress_callback, refuse, thread_count, whole_number
from walkernel._files import atomic_write, file_path
from walkernel.features import Modulation, identity, modulation_values
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.products import FeatureBlocks, block_edges
from walkernel.sampling import FeatureRows, WalkJob, checked_sampling, walk_job
from walkernel.walks import Sampler, sampler_fields

FORMAT = "walkernel features 1"
MANIFEST = "manifest.json"
BLOCK_BYTES = 2**26
"""Size of a block if none is given, about."""
ARRAYS = ("indptr", "indices", "data", "norms")

Progress = Callable[[int, int], object]
Produce = Callable[[WalkJob, list[tuple[int, int]]], Iterator[tuple[int, list[FeatureRows]]]]
"""Yields the number of each range of start nodes, in any order, and its features."""


def store_features(
    directory: str | os.PathLike[str],
    graph: Graph,
    kernel_or_f: Modulation,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str | None = None,
    transpose: bool = False,
    block_size: int | None = None,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> StoredFeatures:
    """Write ``sample_features(…)`` to a directory, block by block, and return it as it lies there.

    A run that was stopped, in whatever way, goes on where it was when it is called again with the same
    arguments; one that is finished is only opened. One process writes at a time: a second is refused.

    Parameters
    ----------
    directory : path
        A new directory, an empty one, or that of an earlier call with the same arguments.
    block_size : int, optional
        Nodes of a block; if not given, what makes about 64 MiB.
    graph, kernel_or_f, n_walks, sampler, seed, stream, nodes, matrix, transpose, n_threads, progress
        As in ``sample_features``.

    Returns
    -------
    StoredFeatures

    Examples
    --------
    >>> import tempfile, walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> folder = tempfile.TemporaryDirectory()
    >>> stored = wk.store_features(folder.name + "/phi", graph, wk.Diffusion(), 8, block_size=10)
    >>> stored.n_blocks, stored[[33, 0]].shape
    (4, (2, 34))
    >>> in_memory = wk.sample_features(graph, wk.Diffusion(), 8)
    >>> (wk.open_features(folder.name + "/phi").to_csr() != in_memory).nnz
    0
    >>> folder.cleanup()
    """
    owner = "store_features"
    if matrix is None:
        matrix = kernel_or_f.matrix if isinstance(kernel_or_f, Kernel) else "normalized"
    chosen = checked_sampling(owner, graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    longest = chosen.sampler.longest
    f = modulation_values(graph, kernel_or_f, chosen.sampler, matrix, longest + 1, chosen.transpose)
    produce = in_this_process(thread_count(owner, n_threads))
    job, report = WalkJob(chosen, f, (chosen.stream,)), progress_callback(owner, progress)
    return store_job(owner, directory, job, block_size, produce, report)[0].matrix


def open_features(directory: str | os.PathLike[str]) -> StoredFeatures:
    """Open features written by ``store_features``, all blocks of which must be there.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.open_features("no such place")
    Traceback (most recent call last):
        ...
    FileNotFoundError: There are no features in no such place: it has no manifest.json.
    """
    folder = file_path("open_features", directory)
    return _open(folder, _read_manifest(folder))[0].matrix


class StoredRows(NamedTuple):
    """Features in files, the norms of their rows, and the number of steps walked for them."""

    matrix: StoredFeatures
    norms: NDArray[np.float64]
    n_steps: int


class StoredFeatures(FeatureBlocks):
    """Features in the files of a directory: what ``store_features`` and ``open_features`` return.

    Blocks are mapped into memory when they are used, and checked against their checksums before.

    Attributes
    ----------
    directory : Path
    shape : tuple of int
        Start nodes and nodes of the graph.
    edges : ndarray of int64, (n_blocks + 1,)
        Rows where the blocks begin, and where the last one ends.
    ids : ndarray of int64, (n,)
        Start nodes.
    """

    def __init__(self, directory: Path, blocks: list[Block], n_nodes: int, result: int) -> None:
        self.directory, self._blocks, self._result = directory, blocks, result
        self.edges = np.array([0, *(block.about["last"] for block in blocks)], dtype=np.int64)
        self.shape = (int(self.edges[-1]), n_nodes)
        self.nnz = sum(block.about["nnz"][result] for block in blocks)
        self.nbytes = 12 * self.nnz + 4 * self.shape[0]
        self.ids = np.concatenate([block.array("ids") for block in blocks])

    def __repr__(self) -> str:
        n, N = self.shape
        return f"StoredFeatures({n}x{N}, {self.n_blocks} blocks in {self.directory})"

    def __getitem__(self, rows: Any) -> scipy.sparse.csr_array:
        """Return some rows, given by a slice, a list of positions or a mask; only their blocks are read."""
        try:
            positions = np.atleast_1d(np.arange(self.shape[0])[rows])
        except IndexError as error:
            refuse("StoredFeatures", "rows", f"positions below {self.shape[0]}", Described(str(error)))
        return self.rows(positions)

    def blocks(self) -> Iterator[scipy.sparse.csr_array]:
        """Give the blocks one after the other."""
        return map(self._block, range(self.n_blocks))

    def to_csr(self) -> scipy.sparse.csr_array:
        """Return all rows in memory."""
        return scipy.sparse.vstack(list(self.blocks()), format="csr")

    def _block(self, number: int) -> scipy.sparse.csr_array:
        block, first, last = self._blocks[number], self.edges[number], self.edges[number + 1]
        result = scipy.sparse.csr_array((last - first, self.shape[1]))
        for name in ARRAYS[:3]:
            setattr(result, name, block.array(f"{name}.{self._result}"))
        return result


def in_this_process(n_threads: int) -> Produce:
    """Return what walks the blocks of a job here, one after the other."""

    def produce(job: WalkJob, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, list[FeatureRows]]]:
        for number, (first, last) in enumerate(ranges):
            yield number, walk_job(job.part(first, last), n_threads, None)

    return produce


def store_job(
    owner: str,
    directory: str | os.PathLike[str],
    job: WalkJob,
    block_size: int | None,
    produce: Produce,
    progress: Progress | None,
) -> list[StoredRows]:
    """Bring the features of a job into a directory, as far as they are not there, and open them."""
    folder = file_path(owner, directory)
    if folder.exists() and not folder.is_dir():
        refuse(owner, "directory", "a directory", Described(f"the file {folder}"))
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        manifest = _agree(owner, folder, job, block_size)
        edges = block_edges(manifest["n_rows"], manifest["block_size"])
        ranges = [(int(first), int(last)) for first, last in pairwise(edges)]
        missing = [number for number in range(len(ranges)) if not _path(folder, number).exists()]
        done = int(edges[-1]) - sum(ranges[b][1] - ranges[b][0] for b in missing)
        for place, found in produce(job, [ranges[b] for b in missing]):
            number = missing[place]
            _write(folder, number, job, ranges[number], found)
            done += ranges[number][1] - ranges[number][0]
            if progress is not None:
                progress(done, int(edges[-1]))
        return _open(folder, manifest)


def default_block_size(job: WalkJob) -> int:
    """Return the number of start nodes whose features take about 64 MiB."""
    sampler = job.sampling.sampler
    per_node = 12 * job.n_results * job.sampling.n_walks * (1 + sampler.mean_steps)
    return int(max(1, min(job.sampling.ids.size, BLOCK_BYTES // per_node)))


def _agree(owner: str, folder: Path, job: WalkJob, block_size: int | None) -> dict[str, Any]:
    """Return the manifest of a folder, written if it is new; refuse a folder of other contents."""
    if block_size is not None:
        whole_number(owner, "block_size", block_size, 1)
    wanted = _description(job) | {"block_size": block_size or default_block_size(job)}
    if not (folder / MANIFEST).exists():
        strangers = [entry.name for entry in folder.iterdir() if entry.name != "lock"]
        if any(not name.startswith(".") for name in strangers):
            got = Described(f"{folder}, which has {strangers[0]!r} in it")
            refuse(owner, "directory", "a new or empty directory, or one of stored features", got)
        with atomic_write(folder / MANIFEST) as file:
            file.write(json.dumps(wanted, indent=1).encode())
        return wanted
    found = _read_manifest(folder)
    for key, value in wanted.items():
        if found[key] != value and not (key == "block_size" and block_size is None):
            _refuse_other(owner, folder, key, found[key], value)
    return found


def _refuse_other(owner: str, folder: Path, key: str, found: Any, value: Any) -> None:
    """Refuse a directory whose features differ in something."""
    remedy = "Use the same arguments to go on with it, or another directory."
    plain = key in ("n_walks", "seed", "streams", "matrix", "block_size", "n_rows", "transpose")
    rule = f"one whose features have {key} = {value}" if plain else f"one of features of the same {key}"
    got = Described(f"{folder} with {key} = {found}" if plain else f"{folder}, of another {key}")
    refuse(owner, "directory", rule, got, remedy)


def _description(job: WalkJob) -> dict[str, Any]:
    """Return what decides the bits, in the form that JSON has it."""
    own = job.sampling
    return {
        "format": FORMAT,
        "graph": identity(own.graph),
        "n_nodes": own.graph.n_nodes,
        "nodes": digest_of(own.ids),
        "n_rows": int(own.ids.size),
        "matrix": own.matrix,
        "transpose": own.transpose,
        "sampler": json.loads(json.dumps(sampler_fields(own.sampler))),
        "n_walks": own.n_walks,
        "seed": own.seed,
        "streams": list(job.streams),
        "f": job.f.tolist(),
        "with_norms": job.with_norms,
        "head_apart": job.apart,
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.exists():
        raise FileNotFoundError(f"There are no features in {folder}: it has no {MANIFEST}.")
    try:
        manifest = json.loads(path.read_bytes())
        version = manifest["format"]
        complete = version != FORMAT or {"n_rows", "n_nodes", "block_size", "streams"} <= manifest.keys()
    except (ValueError, TypeError, KeyError) as error:
        damaged(path, f"it cannot be read ({error})")
    if version != FORMAT:
        got = Described(f"{version!r} in {path}")
        refuse("open_features", "directory", f"of format {FORMAT!r}", got, "Write the features again.")
    if not complete:
        damaged(path, "something is missing in it")
    return dict(manifest)


def _open(folder: Path, manifest: dict[str, Any]) -> list[StoredRows]:
    """Open all blocks; those that are missing are named."""
    edges = block_edges(manifest["n_rows"], manifest["block_size"])
    paths = [_path(folder, number) for number in range(edges.size - 1)]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FileNotFoundError(
            f"{missing[0]}{more} of {len(paths)} blocks are missing in {folder}. Run the same again: only "
            "what is missing is made."
        )
    blocks = [Block(path) for path in paths]
    description = _fingerprint(manifest)
    for block, (first, last) in zip(blocks, pairwise(edges.tolist()), strict=True):
        about = block.about
        if (about["first"], about["last"], about["of"]) != (first, last, description):
            damaged(block.path, "it belongs to other features")
    count = len(manifest["streams"]) + manifest["head_apart"]
    return [
        StoredRows(
            StoredFeatures(folder, blocks, manifest["n_nodes"], result),
            np.concatenate([block.array(f"norms.{result}") for block in blocks]),
            sum(block.about["n_steps"][result] for block in blocks),
        )
        for result in range(count)
    ]


def _fingerprint(manifest: dict[str, Any]) -> str:
    """Return a digest of what decides the bits, block sizes apart."""
    decisive = {key: value for key, value in manifest.items() if key != "block_size"}
    return digest_of(np.frombuffer(json.dumps(decisive, sort_keys=True).encode(), dtype=np.uint8))


def _path(folder: Path, number: int) -> Path:
    return folder / f"block-{number:06d}"


def _write(
    folder: Path, number: int, job: WalkJob, place: tuple[int, int], found: Iterable[FeatureRows]
) -> None:
    """Write the features of a block of rows."""
    rows = list(found)
    arrays = {"ids": job.sampling.ids[slice(*place)]}
    for result, (matrix, norms, _) in enumerate(rows):
        parts = (matrix.indptr, matrix.indices, matrix.data, norms)
        arrays |= {f"{name}.{result}": array for name, array in zip(ARRAYS, parts, strict=True)}
    about = {
        "first": place[0],
        "last": place[1],
        "of": _fingerprint(_description(job)),
        "nnz": [int(matrix.nnz) for matrix, _, _ in rows],
        "n_steps": [int(steps) for _, _, steps in rows],
    }
    write_block(_path(folder, number), arrays, about)
