"""Features in files: written block by block, resumed after any interruption, read a block at a time.

A block file appears only when it is complete, and is then never computed again. ``_feature_files`` describes
the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, refuse, whole_number
from walkernel._files import file_path, unfinished_in
from walkernel.engines._base import Engine, FeatureJob, Progress
from walkernel.engines._feature_files import (
    BLOCK,
    MANIFEST,
    block_path,
    description_of,
    fingerprint,
    joined,
    missing_blocks,
    open_blocks,
    ranges_of,
    read_manifest,
    write_manifest,
    write_rows,
)
from walkernel.features import BlockedFeatures
from walkernel.storage import Block, exclusive

BLOCK_BYTES = 2**26
"""Approximate default size of a block."""
USER_NAMES = {
    "f": "kernel, f and sampler",
    "sampler": "kernel, f and sampler",
    "with_norms": "ensembles",
    "head_apart": "stitches",
}
"""The parameters of the user that fields of the manifest stand for."""


def open_features(directory: str | os.PathLike[str]) -> StoredFeatures:
    """Open features written by ``sample_features(…, directory=…)``; all blocks must be present.

    Features of ``estimate_kernel(…, directory=…)`` are opened by repeating that call.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.open_features("no such place")
    Traceback (most recent call last):
        ...
    FileNotFoundError: There are no features in no such place: it has no manifest.json.
    """
    folder = file_path(directory, parameter="directory")
    found = _open(folder, read_manifest(folder))
    if len(found) > 1:
        got = Described(f"{folder} with {len(found)}, of a kernel")
        remedy = "Open them by repeating the call of estimate_kernel(..., directory=...)."
        refuse("directory", "one of a single set of features", got, remedy)
    return found[0]


class StoredFeatures(BlockedFeatures):
    """Features in the files of a directory.

    ``sample_features(…, directory=…)`` and ``open_features`` return them.

    Blocks are mapped into memory when they are used; arrays are compared with their checksums on first use.

    Attributes
    ----------
    directory : Path
    shape : tuple of int
        Number of start nodes and number of nodes of the graph.
    edges : ndarray of int64, (n_blocks + 1,)
        First row of each block, followed by the number of rows.
    ids : ndarray of int64, (n,)
        Start nodes.
    """

    def __init__(
        self, directory: Path, blocks: list[Block], ids: NDArray[np.int64], n_nodes: int, result: int
    ) -> None:
        self.directory, self.ids = directory, ids
        self.norms = joined(blocks, f"norms.{result}")
        self.n_steps = sum(block.about["n_steps"][result] for block in blocks)
        self._blocks, self._result = blocks, result
        self.edges = np.array([0, *(block.about["last"] for block in blocks)], dtype=np.int64)
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
        """Return all rows in memory."""
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
        for name in ("indptr", "indices", "data"):
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
    wanted = description_of(job, engine.precision) | {"block_size": block_size or default_block_size(job)}
    manifest = _matching_manifest(folder, wanted, block_size is None)
    if (folder / MANIFEST).exists() and not missing_blocks(folder, manifest):
        return _open(folder, manifest)
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        for unfinished in [*unfinished_in(folder, MANIFEST), *unfinished_in(folder, f"{BLOCK}*")]:
            unfinished.unlink()
        manifest = _matching_manifest(folder, wanted, block_size is None)
        if not (folder / MANIFEST).exists():
            write_manifest(folder, manifest)
        _write_missing(folder, manifest, job, engine, progress)
        return _open(folder, manifest)


def _write_missing(
    folder: Path, manifest: dict[str, Any], job: FeatureJob, engine: Engine, progress: Progress | None
) -> None:
    """Write the missing blocks, after checking the existing ones."""
    open_blocks(folder, manifest)
    ranges, missing = ranges_of(manifest), missing_blocks(folder, manifest)
    total = manifest["n_rows"]
    done = total - sum(last - first for first, last in (ranges[b] for b in missing))
    for place, found in engine.blocks(job, [ranges[b] for b in missing]):
        first, last = ranges[missing[place]]
        write_rows(folder, missing[place], manifest, job.spec.ids[first:last], found)
        del found  # before the next block is computed
        done += last - first
        if progress is not None:
            progress(done, total)


def default_block_size(job: FeatureJob) -> int:
    """Return the number of start nodes whose features take about 64 MiB."""
    sampler = job.spec.sampler
    per_node = 12 * job.n_results * job.spec.n_walks * (1 + sampler.mean_steps)
    return int(max(1, min(job.spec.ids.size, BLOCK_BYTES // per_node)))


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


def _matching_manifest(folder: Path, wanted: dict[str, Any], any_block_size: bool) -> dict[str, Any]:
    """Return the existing or future manifest of a folder; refuse a folder with other contents."""
    if not (folder / MANIFEST).exists():
        _check_no_foreign_files(folder, wanted)
        return wanted
    found = read_manifest(folder)
    for key, value in wanted.items():
        if found.get(key) != value and not (key == "block_size" and any_block_size):
            _refuse_mismatch(folder, key, found.get(key), value)
    return found


def _check_no_foreign_files(folder: Path, wanted: dict[str, Any]) -> None:
    """Refuse a directory without a manifest that holds anything but blocks of the requested features."""
    rule = "a new or empty directory, or one of stored features"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []
    foreign = [name for name in names if not name.startswith((".", BLOCK))]
    if foreign:
        refuse("directory", rule, Described(f"{folder}, which contains {foreign[0]!r}"))
    try:
        open_blocks(folder, wanted)
    except ValueError:
        got = Described(f"{folder}, which contains blocks of other features and no {MANIFEST}")
        remedy = "Use the same arguments, including block_size, to resume, or use another directory."
        refuse("directory", rule, got, remedy)


def _refuse_mismatch(folder: Path, key: str, found: Any, value: Any) -> None:
    """Refuse a directory whose features differ in one field of the manifest."""
    remedy = "Use the same arguments to resume, or use another directory."
    is_plain = key in ("n_walks", "seed", "streams", "matrix", "block_size", "n_rows", "transpose")
    rule = (
        f"one whose features have {key} = {value}"
        if is_plain
        else f"one of the same {USER_NAMES.get(key, key)}"
    )
    got = Described(f"{folder} with {key} = {found}" if is_plain else f"{folder}, which differs in that")
    refuse("directory", rule, got, remedy)


def _open(folder: Path, manifest: dict[str, Any]) -> list[StoredFeatures]:
    """Open all blocks, or raise an error that names the missing ones."""
    missing = [block_path(folder, number).name for number in missing_blocks(folder, manifest)]
    if missing:
        few = f"{missing[0]} is" if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} more are"
        raise FileNotFoundError(
            f"{few} missing in {folder}, of {len(ranges_of(manifest))} blocks. Repeat the call that wrote "
            "them: only missing blocks are computed."
        )
    blocks = open_blocks(folder, manifest)
    ids = joined(blocks, "ids")
    ids.flags.writeable = False
    return [
        StoredFeatures(folder.absolute(), blocks, ids, manifest["n_nodes"], result)
        for result in range(len(manifest["streams"]) + manifest["head_apart"])
    ]


def _reopen(folder: Path, description: str, result: int) -> StoredFeatures:
    """Open features again, after pickling."""
    manifest = read_manifest(folder)
    if fingerprint(manifest) != description:
        raise ValueError(f"The features in {folder} were replaced by others. Open them again.")
    return _open(folder, manifest)[result]
