"""Large arrays derived from a stored graph: computed once and cached in files beside those of the graph.

An array and its record (``alias-….npy``, ``alias-….json``) are written under temporary names and then
renamed. The names contain a digest of what the array depends on, so several processes may write them at the
same time. A file that does not match its record is computed again. Where the folder is not writable, the
array lives in an anonymous temporary file, which disappears with the process.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from walkernel._files import atomic_write, replacement
from walkernel.storage._folders import CACHE_PREFIX, Entry, digest_of_file, digest_of_json, open_array, sealed

Fill = Callable[[NDArray[Any]], object]
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def cached_array(folder: Path, about: str, dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    """Return a cached array, mapped from the folder of a store; compute it if it is not there.

    Parameters
    ----------
    folder : Path
        The folder of the store.
    about : str
        Everything that the array depends on: its format and the fingerprint of the graph.
    dtype, size
        The dtype and the length of the array, which has one dimension.
    fill : callable
        Computes the array in place.
    """
    if size == 0:
        return np.empty(0, dtype=dtype)
    name = CACHE_PREFIX + hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
    found = _find(folder, name, np.dtype(dtype).str, size)
    if found is not None:
        return found
    try:
        return _write_file(folder, name, dtype, size, fill)
    except OSError:
        return _fill_temporary_file(dtype, size, fill)


def _find(folder: Path, name: str, dtype: str, size: int) -> NDArray[Any] | None:
    """Return the cached array, or None if it is missing or damaged."""
    try:
        entry = _read_record(folder / f"{name}.json")
        if (entry.dtype, entry.shape) != (dtype, (size,)):
            return None
        return open_array(folder / f"{name}.npy", entry)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read_record(path: Path) -> Entry:
    record = json.loads(path.read_bytes())
    if record["digest"] != digest_of_json(record):
        raise ValueError(f"{path} does not match its digest")
    return Entry(**record["array"])._replace(shape=tuple(record["array"]["shape"]))


def verify_cached(folder: Path) -> list[str]:
    """Compare every byte of the cached arrays with their digests; return the names of the files read."""
    files = []
    for record in sorted(folder.glob(f"{CACHE_PREFIX}*.json")):
        path = record.with_suffix(".npy")
        try:
            open_array(path, _read_record(record), in_full=True)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} is damaged, or does not match {record.name}. "
                "Remove both files: they are computed again when they are needed."
            ) from error
        files += [path.name, record.name]
    return files


def _write_file(folder: Path, name: str, dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    with replacement(folder / f"{name}.npy") as part:
        array = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=(size,))
        with part.open("r+b") as file:
            _reserve(file, part.stat().st_size)
        fill(np.asarray(array))
        array.flush()
        del array  # no page is written after the modification time is recorded
        entry = sealed(part, np.dtype(dtype).str, (size,), digest_of_file(part))
        mapped = open_array(part, entry)
    record: dict[str, Any] = {"array": entry._asdict()}
    record["digest"] = digest_of_json(record)
    with atomic_write(folder / f"{name}.json") as file:
        file.write(json.dumps(record, indent=1).encode())
    return mapped


def _fill_temporary_file(dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    n_bytes = size * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile() as file:
        file.truncate(n_bytes)
        _reserve(file, n_bytes)
        array = np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype=dtype)
    fill(array)
    array.flags.writeable = False
    return array


def _reserve(file: IO[bytes], n_bytes: int) -> None:
    """Allocate the disk space now: a full disk raises here, but would kill the process in a mapped file."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
