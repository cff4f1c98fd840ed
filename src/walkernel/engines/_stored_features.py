"""Features in files: written block by block, resumed after any interruption, read a block at a time.

    manifest.json    everything that determines the bits of the features, and the size of the blocks
    block-000000     a folder of arrays, those of the first rows: ids, and for each result k of the job
                     indptr.k, indices.k, data.k and norms.k; its manifest contains a digest of that above,
                     so that a block of other features is never mistaken for one of these
    .lock            the process that writes, if there is one

A block appears only when it is complete, and is then never computed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, refuse, whole_number
from walkernel._files import file_path, remove_unfinished, sync_files
from walkernel.engines._base import Engine, FeatureJob, Progress
from walkernel.features import BlockedFeatures, FeatureMatrix, block_edges
from walkernel.storage import (
    MANIFEST,
    Folder,
    Kind,
    digest_arrays,
    digest_of_json,
    exclusive,
    write_folder,
    write_manifest,
)
from walkernel.walks import PrunedWalks, identity, sampler_fields

FEATURES = Kind(
    "set of features",
    "walkernel features 3",
    "Delete it and repeat the call that wrote it: only missing blocks are computed.",
)
BLOCK = Kind(
    "block of features",
    "walkernel block of features 1",
    "Delete its folder and repeat the call that wrote it: only missing blocks are computed. If it was "
    "replaced after it was opened, open it again.",
)
PREFIX = "block-"
CSR = ("indptr", "indices", "data")
BLOCK_BYTES = 2**26
"""Approximate default size of a block."""
FEW_STARTS = 64
"""Start nodes whose heads, if they are pruned, tell how much the others leave."""
USER_NAMES = {
    "f": "kernel, f and sampler",
    "sampler": "kernel, f and sampler",
    "with_norms": "ensembles",
    "head_apart": "stitches",
}
"""The parameters of the user that fields of the manifest stand for."""
PLAIN = ("n_walks", "seed", "streams", "matrix", "block_size", "n_rows", "transpose")
"""Fields that error messages can show."""


def open_features(directory: str | os.PathLike[str]) -> StoredFeatures:
    """Open features written by ``sample_features(…, directory=…)``; all blocks must be present.

    Features of ``estimate_kernel(…, directory=…)`` are opened by repeating that call.

    Parameters
    ----------
    directory : path
        The directory that was given to ``sample_features``.

    Returns
    -------
    StoredFeatures
        The features, which stay in their files.

    Raises
    ------
    FileNotFoundError
        If there are no features, or a block is missing.

    Examples
    --------
    >>> import tempfile, walkernel as wk
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = wk.sample_features(wk.load_dataset("karate").graph, wk.Diffusion(), 8, directory=folder.name)
    >>> wk.open_features(folder.name).shape
    (34, 34)
    >>> folder.cleanup()
    >>> wk.open_features("no such place")
    Traceback (most recent call last):
        ...
    FileNotFoundError: There is no set of features in no such place: it has no manifest.json.
    """
    folder = file_path(directory, parameter="directory")
    found = _open(folder, Folder(folder, FEATURES).about)
    if len(found) > 1:
        got = Described(f"{folder} with {len(found)}, of a kernel")
        remedy = "Open them by repeating the call of estimate_kernel(..., directory=...)."
        refuse("directory", "one of a single set of features", got, remedy)
    return found[0]


class StoredFeatures(BlockedFeatures):
    """Features Φ in the files of a directory; ``sample_features`` and ``open_features`` return them.

    ``features[rows]`` reads rows given by a slice, a list of positions or a mask, as a SciPy array;
    ``multiply`` and ``multiply_transposed`` are products, block by block. Blocks are mapped into memory when
    they are used, and arrays are compared with their checksums on first use.

    Attributes
    ----------
    directory : Path
        Where the files are.
    shape : tuple of int
        Number of start nodes and number of nodes of the graph.
    edges : ndarray of int64, (n_blocks + 1,)
        First row of each block, followed by the number of rows.
    ids : ndarray of int64, (n,)
        Start nodes.

    Examples
    --------
    >>> import tempfile, numpy as np, walkernel as wk
    >>> folder, graph = tempfile.TemporaryDirectory(), wk.load_dataset("karate").graph
    >>> stored = wk.sample_features(graph, wk.Diffusion(), 8, directory=folder.name, block_size=10)
    >>> stored.n_blocks, stored[:5].shape, stored.multiply(np.ones((34, 2))).shape
    (4, (5, 34), (34, 2))
    >>> folder.cleanup()
    """

    def __init__(
        self, directory: Path, blocks: list[Folder], ids: NDArray[np.int64], n_nodes: int, result: int
    ) -> None:
        self.directory, self.ids = directory, ids
        self.norms = _joined(blocks, f"norms.{result}")
        self.n_steps = sum(block.about["n_steps"][result] for block in blocks)
        self._blocks, self._result = blocks, result
        self.edges = np.array([0, *(block.about["rows"][1] for block in blocks)], dtype=np.int64)
        self.shape = (ids.size, n_nodes)
        self.nnz = sum(block.about["nnz"][result] for block in blocks)
        self._index = np.dtype("i4" if max(self.nnz, n_nodes) <= np.iinfo(np.int32).max else "i8")
        self.nbytes = 8 * self.nnz + self._index.itemsize * (self.nnz + ids.size + 1)

    def __repr__(self) -> str:
        n, N = self.shape
        return f"StoredFeatures({n}x{N}, {self.n_blocks} blocks in {self.directory})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.directory, self._blocks[0].about["of"], self._result)

    def __getitem__(self, rows: Any) -> scipy.sparse.csr_array:
        """Return rows given by a slice, a list of positions or a mask; only their blocks are read."""
        return self.rows(self._positions(rows))

    def _positions(self, rows: Any) -> NDArray[np.int64]:
        n = self.shape[0]
        if isinstance(rows, slice):
            return np.arange(*rows.indices(n), dtype=np.int64)
        rule = f"a slice, positions from {-n} to {n - 1}, or a mask of {n}"
        try:
            array = np.atleast_1d(np.asarray(rows))
        except ValueError:
            refuse("rows", rule, rows, error=IndexError)
        if array.shape == (n,) and array.dtype == np.bool_:
            return np.flatnonzero(array)
        if array.ndim > 1 or (array.size and array.dtype.kind not in "iu"):
            refuse("rows", rule, rows, error=IndexError)
        outside = (array < -n) | (array >= n)
        if outside.any():
            refuse("rows", rule, array[outside][0], error=IndexError)
        positions = array.astype(np.int64)
        return np.where(positions < 0, positions + n, positions)

    def blocks(self) -> Iterator[scipy.sparse.csr_array]:
        """Yield the blocks one after the other."""
        return map(self._block, range(self.n_blocks))

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return all rows in memory.

        Returns
        -------
        csr_array, (n, n_nodes)
            The features.
        """
        indptr = np.zeros(self.shape[0] + 1, dtype=self._index)
        indices, data = np.empty(self.nnz, dtype=self._index), np.empty(self.nnz)
        for first, block in zip(self.edges.tolist(), self.blocks(), strict=False):
            begin = int(indptr[first])
            entries = slice(begin, begin + block.data.size)
            indptr[first + 1 : first + block.indptr.size] = begin + block.indptr[1:]
            indices[entries], data[entries] = block.indices, block.data
        return scipy.sparse.csr_array((data, indices, indptr), shape=self.shape)

    def _block(self, number: int) -> scipy.sparse.csr_array:
        block, first, last = self._blocks[number], self.edges[number], self.edges[number + 1]
        result = scipy.sparse.csr_array((last - first, self.shape[1]))
        for name in CSR:
            setattr(result, name, block.array(f"{name}.{self._result}"))
        return result


def store(
    directory: str | os.PathLike[str],
    job: FeatureJob,
    block_size: int | None,
    engine: Engine,
    progress: Progress | None,
) -> list[StoredFeatures]:
    """Write the missing features of a job, which an engine makes, to a directory, and open all of them."""
    folder = _check_directory(directory)
    wanted = _describe(job, engine.precision) | {"block_size": block_size or default_block_size(job)}
    about = _matching(folder, wanted, block_size is None)
    if not (folder / MANIFEST).exists() or len(_open_blocks(folder, about)) < len(_ranges(about)):
        with engine.in_use():  # which fails before anything is written where it is not available
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder):
                for names in (MANIFEST, f"{PREFIX}*"):
                    remove_unfinished(folder, names)
                about = _matching(folder, wanted, block_size is None)
                if not (folder / MANIFEST).exists():
                    write_manifest(folder, FEATURES, about, {})
                    sync_files(folder / MANIFEST)
                _write_missing(folder, about, job, engine, progress)
    return _open(folder, about)


def _describe(job: FeatureJob, precision: str) -> dict[str, Any]:
    """Return everything that determines the bits of the features, as JSON types."""
    own = job.spec
    return {
        "graph": identity(own.graph),
        "n_nodes": own.graph.n_nodes,
        "nodes": digest_arrays("nodes", own.ids),
        "n_rows": int(own.ids.size),
        "matrix": own.matrix,
        "transpose": own.transpose,
        "sampler": json.loads(json.dumps(sampler_fields(own.sampler))),
        "n_walks": own.n_walks,
        "seed": own.seed,
        "streams": list(job.streams),
        "f": job.f.tolist(),
        "with_norms": job.with_norms,
        "head_apart": job.separate_heads,
        "precision": precision,
    }


def _write_missing(
    folder: Path, about: dict[str, Any], job: FeatureJob, engine: Engine, progress: Progress | None
) -> None:
    existing, of, total = _open_blocks(folder, about), _fingerprint(about), about["n_rows"]
    missing = [(number, *rows) for number, rows in enumerate(_ranges(about)) if number not in existing]
    done = total - sum(last - first for _, first, last in missing)
    for place, found in engine.blocks(job, [(first, last) for _, first, last in missing]):
        number, first, last = missing[place]
        kept = {"rows": [first, last], "of": of}
        _write_block(_block_path(folder, number), kept, job.spec.ids[first:last], found)
        del found  # before the next block is computed
        done += last - first
        if progress is not None:
            progress(done, total)


def _write_block(
    path: Path, about: dict[str, Any], ids: NDArray[np.int64], found: Iterable[FeatureMatrix]
) -> None:
    """Write the features of some start nodes."""
    rows, arrays = list(found), {"ids": ids}
    for k, features in enumerate(rows):
        matrix = features.to_scipy()
        arrays |= {f"{name}.{k}": getattr(matrix, name) for name in CSR} | {f"norms.{k}": features.norms}
    counts = {"nnz": [own.nnz for own in rows], "n_steps": [int(own.n_steps) for own in rows]}
    write_folder(path, BLOCK, about | counts, arrays)


def _fingerprint(about: dict[str, Any]) -> str:
    """Return a digest of everything that determines the bits, which the block size does not."""
    return digest_of_json({key: value for key, value in about.items() if key != "block_size"})


def _ranges(about: dict[str, Any]) -> list[list[int]]:
    """Return the first row of each block, and the one after its last."""
    return list(map(list, pairwise(block_edges(about["n_rows"], about["block_size"]).tolist())))


def _block_path(folder: Path, number: int) -> Path:
    return folder / f"{PREFIX}{number:06d}"


def _open_blocks(folder: Path, about: dict[str, Any]) -> dict[int, Folder]:
    """Open the existing blocks, by their numbers, and refuse a block of other features or rows."""
    blocks, of = {}, _fingerprint(about)
    for number, rows in enumerate(_ranges(about)):
        path = _block_path(folder, number)
        if not (path / MANIFEST).exists():
            continue
        block = blocks[number] = Folder(path, BLOCK)
        if (block.about["of"], block.about["rows"]) != (of, rows):
            block.raise_damaged(MANIFEST, f"it is not of the rows {rows[0]} to {rows[1]} of these features")
    return blocks


def _joined(blocks: list[Folder], name: str) -> NDArray[Any]:
    """Return an array of all blocks, joined; one block is mapped at a time, to limit open files."""
    return np.concatenate([np.array(block.array(name)) for block in blocks])


def default_block_size(job: FeatureJob) -> int:
    """Return the number of start nodes whose features take about 64 MiB."""
    spec, n, n_walks, in_heads = job.spec, job.spec.ids.size, float(job.spec.n_walks), 0.0
    if isinstance(spec.sampler, PrunedWalks) and n:
        probe = spec.at(spec.ids[:: max(1, n // FEW_STARTS)])
        head, front = probe.heads()
        n_walks, in_heads = probe.walks_from(front).mean(), head.nodes.size / probe.ids.size
    per_node = 12 * job.n_results * (n_walks * (1 + spec.sampler.mean_steps) + in_heads)
    return int(max(1, min(n, BLOCK_BYTES // per_node)))


def check_block_size(block_size: object, directory: object) -> int | None:
    """Return a valid ``block_size`` of files, or None if it is not given."""
    if block_size is None:
        return None
    if directory is None:
        refuse("block_size", "None without a directory", block_size)
    return whole_number("block_size", block_size, 1)


def _check_directory(directory: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a directory that exists or can be created."""
    folder = file_path(directory, parameter="directory").absolute()
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            refuse("directory", "a directory", Described(f"the file {place}"))
    return folder


def _matching(folder: Path, wanted: dict[str, Any], any_block_size: bool) -> dict[str, Any]:
    """Return what the existing or future manifest of a folder says; refuse a folder with other contents."""
    if not (folder / MANIFEST).exists():
        _check_no_foreign_files(folder, wanted)
        return wanted
    found = Folder(folder, FEATURES).about
    remedy = "Use the same arguments to resume, or use another directory."
    for key, value in wanted.items():
        if found.get(key) == value or (key == "block_size" and any_block_size):
            continue
        if key in PLAIN:
            rule, got = f"one whose features have {key} = {value}", f"{folder} with {key} = {found.get(key)}"
        else:
            rule, got = f"one of the same {USER_NAMES.get(key, key)}", f"{folder}, which differs in that"
        refuse("directory", rule, Described(got), remedy)
    return found


def _check_no_foreign_files(folder: Path, wanted: dict[str, Any]) -> None:
    """Refuse a directory without a manifest that holds anything but blocks of the requested features."""
    rule = "a new or empty directory, or one of stored features"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []
    foreign = [name for name in names if not name.startswith((".", PREFIX))]
    if foreign:
        refuse("directory", rule, Described(f"{folder}, which contains {foreign[0]!r}"))
    try:
        _open_blocks(folder, wanted)
    except ValueError:
        got = Described(f"{folder}, which contains blocks of other features and no {MANIFEST}")
        remedy = "Use the same arguments, including block_size, to resume, or use another directory."
        refuse("directory", rule, got, remedy)


def _open(folder: Path, about: dict[str, Any]) -> list[StoredFeatures]:
    """Open all blocks, or raise an error that names the missing ones."""
    folder = folder.absolute()
    existing, n_blocks = _open_blocks(folder, about), len(_ranges(about))
    missing = [_block_path(folder, number).name for number in range(n_blocks) if number not in existing]
    if missing:
        few = f"{missing[0]} is" if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} more are"
        raise FileNotFoundError(
            f"{few} missing in {folder}, of {n_blocks} blocks. Repeat the call that wrote them: "
            "only missing blocks are computed."
        )
    blocks = list(existing.values())
    ids = _joined(blocks, "ids")
    ids.flags.writeable = False
    return [
        StoredFeatures(folder, blocks, ids, about["n_nodes"], result)
        for result in range(len(about["streams"]) + about["head_apart"])
    ]


def _reopen(folder: Path, description: str, result: int) -> StoredFeatures:
    """Open features again, after pickling."""
    about = Folder(folder, FEATURES).about
    if _fingerprint(about) != description:
        raise ValueError(f"The features in {folder} were replaced by others. Open them again.")
    return _open(folder, about)[result]
