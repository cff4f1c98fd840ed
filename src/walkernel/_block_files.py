"""Blocks: files of several arrays that say when they are damaged, and the folders they are kept in.

A block file is

    "walkernel block 1 " + digest of the header + newline
    header: JSON, padded with blanks and closed by a newline; names, types, shapes, places and digests of the
            arrays, and what else is to be known about them
    the arrays, one after the other, each at a multiple of 64 bytes

and appears under its name only when it is complete. Arrays are mapped into memory, and each is checked
against its digest before its first use; a file that changes after it was opened is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from walkernel._files import atomic_write

MAGIC = "walkernel block 1 "
FIRST_LINE = len(MAGIC) + 32 + 1
ALIGNMENT = 64
LOCK = ".lock"


class Block:
    """An open block file: what is known about its arrays, and the arrays on demand.

    Attributes
    ----------
    about : dict
        What was to be known.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checked: set[str] = set()
        with path.open("rb") as file:
            self._state = _state(file)
            first = file.read(FIRST_LINE)
            header = file.readline()
        if not first.startswith(MAGIC.encode()):
            damaged(path, "it does not begin as a block of this version does")
        if first != _first_line(header):
            damaged(path, "its header has another checksum")
        content = json.loads(header)
        self.about: dict[str, Any] = content["about"]
        self._arrays: dict[str, dict[str, Any]] = content["arrays"]
        size = self._state[1]
        if size != content["size"]:
            damaged(path, f"it has {size} bytes in place of {content['size']}")

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, mapped into memory and checked when first asked for."""
        record = self._arrays[name]
        shape, dtype = tuple(record["shape"]), np.dtype(record["dtype"])
        if 0 in shape:
            return np.empty(shape, dtype=dtype)
        with self._again() as file:
            mapped = np.memmap(file, dtype=dtype, mode="r", offset=record["offset"], shape=shape)
        if name not in self._checked:
            if digest_of(mapped) != record["digest"]:
                damaged(self.path, f"the array {name!r} has another checksum")
            self._checked.add(name)
        return mapped.view(np.ndarray)

    @contextmanager
    def _again(self) -> Iterator[IO[bytes]]:
        """Open the file once more, and refuse it if it is another one by now."""
        place = f"{self.path.name} in {self.path.parent}"
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{place} is gone since it was opened. Restore it, or make it again."
            ) from None
        with file:
            if _state(file) != self._state:
                raise ValueError(f"{place} was changed or replaced after it was opened. Open it again.")
            yield file


def write_block(path: Path, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> None:
    """Write a block file, atomically."""
    records: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in arrays.items():
        record = {"dtype": array.dtype.str, "shape": array.shape, "offset": offset}
        records[name] = record | {"digest": digest_of(array)}
        offset = _aligned(offset + array.nbytes)
    begin = _aligned(FIRST_LINE + len(_header(records, about, 0, offset)) + 64)
    header = _header(records, about, begin, offset)
    header = header[:-1] + b" " * (begin - FIRST_LINE - len(header)) + b"\n"
    with atomic_write(path) as file:
        file.write(_first_line(header) + header)
        for name, array in arrays.items():
            file.seek(begin + records[name]["offset"])
            file.write(np.ascontiguousarray(array).data)
        file.truncate(begin + offset)
        file.flush()
        os.fsync(file.fileno())


def digest_of(array: NDArray[Any]) -> str:
    """Return the checksum of an array's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()


def damaged(path: Path, reason: str) -> NoReturn:
    """Say that a block is damaged."""
    raise ValueError(
        f"{path.name} in {path.parent} is damaged: {reason}. Delete it and run the same again: only what is "
        "missing is made."
    )


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Hold a folder for this process; another that holds it is named. The system lets go of it at any end."""
    import fcntl  # not on Windows

    with (directory / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BlockingIOError(
                f"{directory} is being written by {holder}. Wait for its end, or use another directory."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _state(file: IO[bytes]) -> tuple[int, int, int]:
    """Return what tells a file from another one, and from itself after a change."""
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


def _first_line(header: bytes) -> bytes:
    return f"{MAGIC}{hashlib.blake2b(header, digest_size=16).hexdigest()}\n".encode()


def _header(records: dict[str, dict[str, Any]], about: dict[str, Any], begin: int, size: int) -> bytes:
    placed = {name: record | {"offset": begin + record["offset"]} for name, record in records.items()}
    content = {"about": about, "arrays": placed, "size": begin + size}
    return json.dumps(content).encode() + b"\n"


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
