"""Large arrays derived from a stored graph: computed once and cached in folders inside that of the graph.

The name of such a folder, ``alias-…``, contains a digest of what the array depends on, so several processes
may write it at the same time. One that is damaged is computed again. Where the folder of the graph is not
writable, the array lives in an anonymous temporary file, which disappears with the process.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from walkernel._files import replacement_folder
from walkernel.storage._folders import Folder, Kind, sealed, write_manifest
from walkernel.storage._passes import digest_arrays

Fill = Callable[[NDArray[Any]], object]
CACHED = Kind(
    "cached array", "walkernel cached array 1", "Remove its folder: it is computed again when it is needed."
)
CACHE_PREFIX = "alias-"
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def cached_array(folder: Path, about: str, dtype: Any, size: int, fill: Fill) -> NDArray[Any]:
    """Return a cached array, mapped from the folder of a graph; compute it if it is not there.

    Parameters
    ----------
    folder : Path
        The folder of the graph.
    about : str
        Everything that the array depends on: its format and the fingerprint of the graph.
    dtype, size
        The dtype and the length of the array, which has one dimension.
    fill : callable
        Computes the array in place.
    """
    if size == 0:
        return np.empty(0, dtype=dtype)
    place = folder / (CACHE_PREFIX + digest_arrays(about)[:16])
    found = _find(place)
    if found is None:
        with suppress(OSError):
            _write(place, dtype, size, fill)
        found = _find(place)
    return _fill_temporary_file(dtype, size, fill) if found is None else found


def verify_cached(folder: Path) -> list[str]:
    """Compare every byte of the cached arrays of a graph with their digests; return the files read."""
    found = [Folder(place, CACHED) for place in sorted(folder.glob(f"{CACHE_PREFIX}*")) if place.is_dir()]
    return [f"{cached.path.name}/{file}" for cached in found for file in cached.verify()]


def _find(place: Path) -> NDArray[Any] | None:
    """Return the cached array, or None if it is missing or damaged."""
    try:
        return Folder(place, CACHED).array("values", by_time=True)
    except (OSError, ValueError):
        return None


def _write(place: Path, dtype: Any, size: int, fill: Fill) -> None:
    with replacement_folder(place) as part:
        path = part / "values.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(size,))
        with path.open("r+b") as file:
            _reserve(file, path.stat().st_size)
        fill(np.asarray(array))
        array.flush()
        write_manifest(part, CACHED, {}, {"values": sealed(path, array)})


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
