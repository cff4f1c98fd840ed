"""Large arrays that are made of a stored graph once: files beside its own, or without a name.

A file and its record (``alias-….npy``, ``alias-….json``) are written under temporary names. Their own names
tell what is in them, so that several processes may make them at once; a file that does not fit its record is
made again. Where nothing can be written, the array is in a temporary
file that has no name and ends with the process.
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
from walkernel._stores import MADE, Entry, digest_of_file, digest_of_json, open_array, sealed

Fill = Callable[[NDArray[Any]], object]
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def made_array(folder: Path, about: str, dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    """Return an array that ``fill`` makes once, mapped from the folder of a store.

    Parameters
    ----------
    folder : Path
        Of the store.
    about : str
        All that the array depends on: its format and the fingerprint of the graph.
    dtype, size
        Of the array, which is flat.
    fill : callable
        Writes all of an array.
    """
    if size == 0:
        return np.empty(0, dtype=dtype)
    name = MADE + hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
    found = _find(folder, name, np.dtype(dtype).str, size)
    if found is not None:
        return found
    try:
        return _make_file(folder, name, dtype, size, fill)
    except OSError:
        return _make_nameless(dtype, size, fill)


def _find(folder: Path, name: str, dtype: str, size: int) -> NDArray[Any] | None:
    """Return the array if it is there, and undamaged."""
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
        raise ValueError(f"{path} is not what was written")
    return Entry(**record["array"])._replace(shape=tuple(record["array"]["shape"]))


def verify_made(folder: Path) -> list[str]:
    """Compare every byte of made arrays with their records; return the names of the files that were read."""
    files = []
    for record in sorted(folder.glob(f"{MADE}*.json")):
        path = record.with_suffix(".npy")
        try:
            open_array(path, _read_record(record), in_full=True)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} is damaged, or does not fit {record.name}. "
                "Remove both files: they are made again when they are needed."
            ) from error
        files += [path.name, record.name]
    return files


def _make_file(folder: Path, name: str, dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    with replacement(folder / f"{name}.npy") as part:
        array = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=(size,))
        with part.open("r+b") as file:
            _reserve(file, part.stat().st_size)
        fill(np.asarray(array))
        array.flush()
        del array  # no page of it is written after its time is recorded
        entry = sealed(part, np.dtype(dtype).str, (size,), digest_of_file(part))
        made = open_array(part, entry)
    record: dict[str, Any] = {"array": entry._asdict()}
    record["digest"] = digest_of_json(record)
    with atomic_write(folder / f"{name}.json") as file:
        file.write(json.dumps(record, indent=1).encode())
    return made


def _make_nameless(dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    n_bytes = size * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile() as file:
        file.truncate(n_bytes)
        _reserve(file, n_bytes)
        array = np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype=dtype)
    fill(array)
    array.flags.writeable = False
    return array


def _reserve(file: IO[bytes], n_bytes: int) -> None:
    """Take the room on the disk now: a full disk is an error here, and kills the process in a mapped file."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
