"""Block files: several arrays in one file that detects damage, and locks of the folders that hold them.

A block file is

    "walkernel block 1 " + digest of the header + newline
    header: JSON, padded with blanks and closed by a newline; names, types, shapes, offsets and digests of
            the arrays, and information about them
    the arrays, one after the other, each at a multiple of 64 bytes

and appears under its name only when it is complete. Arrays are mapped into memory, and each is compared with
its digest before its first use; a file that changes after it was opened is refused.
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
    """An open block file: information about its arrays, and the arrays on demand.

    Attributes
    ----------
    about : dict
        The information that was written with the arrays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checked: set[str] = set()
        with path.open("rb") as file:
            self._state = _state(file)
            first = file.read(FIRST_LINE)
            header = file.readline()
        if not first.startswith(MAGIC.encode()):
            raise_damaged(path, "it does not begin like a block of this version")
        if first != _first_line(header):
            raise_damaged(path, "its header does not match its checksum")
        content = json.loads(header)
        self.about: dict[str, Any] = content["about"]
        self._arrays: dict[str, dict[str, Any]] = content["arrays"]
        size = self._state[1]
        if size != content["size"]:
            raise_damaged(path, f"it has {size} bytes instead of {content['size']}")

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, mapped into memory and compared with its digest on first use."""
        record = self._arrays[name]
        shape, dtype = tuple(record["shape"]), np.dtype(record["dtype"])
        if 0 in shape:
            return np.empty(shape, dtype=dtype)
        with self._again() as file:
            mapped = np.memmap(file, dtype=dtype, mode="r", offset=record["offset"], shape=shape)
        if name not in self._checked:
            if digest_of(mapped) != record["digest"]:
                raise_damaged(self.path, f"the array {name!r} does not match its checksum")
            self._checked.add(name)
        return mapped.view(np.ndarray)

    @contextmanager
    def _again(self) -> Iterator[IO[bytes]]:
        """Open the file again, and refuse it if it was changed or replaced."""
        place = f"{self.path.name} in {self.path.parent}"
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{place} was removed after it was opened. Restore it, or compute it again."
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


def raise_damaged(path: Path, reason: str) -> NoReturn:
    """Raise the error of a damaged block."""
    raise ValueError(
        f"{path.name} in {path.parent} is damaged: {reason}. Delete it and repeat the call that wrote it: "
        "only missing files are computed."
    )


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Lock a folder for this process, or name the process that holds it; the system releases the lock."""
    import fcntl  # not on Windows

    with (directory / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BlockingIOError(
                f"{directory} is being written by {holder}. Wait until it ends, or use another directory."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _state(file: IO[bytes]) -> tuple[int, int, int]:
    """Return inode, size and modification time, which identify the state of a file."""
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
