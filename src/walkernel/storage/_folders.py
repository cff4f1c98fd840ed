"""Folders of plain arrays with a manifest: graphs, blocks of features and cached tables are stored in them.

    manifest.json    the format, what is known about the arrays, the type, shape, size, modification time and
                     digest of each, and a digest of the manifest itself
    NAME.npy         an array, mapped into memory when it is used

A folder appears under its name only when it is complete. A file is compared with its digest before its first
use and again when it has changed. Where that would take too long, a file whose size and modification time
are those of the manifest is trusted. Recorded modification times lie a few seconds in the past, so that
every later change is noticed; a copy has another time, and is compared by its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from walkernel._files import atomic_write, replacement_folder
from walkernel.storage._passes import digest_arrays

MANIFEST = "manifest.json"
LOCK = ".lock"
SECONDS_BACK = 10


class Kind(NamedTuple):
    """A kind of folder."""

    name: str
    """What error messages call it."""
    format: str
    """Name and version of the format, which the manifest states."""
    remedy: str
    """What to do if one is damaged."""


class Entry(NamedTuple):
    """The manifest's entry of an array."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    mtime_ns: int
    digest: str


class Folder:
    """An open folder of arrays: its manifest is valid, and its files exist and have the right sizes.

    Attributes
    ----------
    path : Path
    about : dict
        What is known about the arrays.
    entries : dict of Entry
        The entries of the arrays, by name.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path, self._kind = path, kind
        self._compared: dict[str, tuple[int, int]] = {}
        manifest = self._read_manifest()
        try:
            self.entries = {
                name: Entry(**fields)._replace(shape=tuple(fields["shape"]))
                for name, fields in manifest.pop("arrays").items()
            }
        except (KeyError, TypeError, AttributeError):
            self.raise_damaged(MANIFEST, "its list of arrays is not complete")
        self.about = manifest
        for name in self.entries:
            self._state(name)

    def _read_manifest(self) -> dict[str, Any]:
        """Return the manifest without its format and its digest, both of which are checked."""
        path, kind = self.path / MANIFEST, self._kind
        if not path.is_file():
            raise FileNotFoundError(f"There is no {kind.name} in {self.path}: it has no {MANIFEST}.")
        try:
            manifest = json.loads(path.read_bytes())
        except ValueError as error:
            self.raise_damaged(MANIFEST, f"it is not JSON ({error})")
        if not isinstance(manifest, dict) or "format" not in manifest:
            self.raise_damaged(MANIFEST, "it does not state its format")
        if manifest["format"] != kind.format:
            raise ValueError(
                f"{path}: expected the format {kind.format!r}, found {manifest['format']!r}. It was written "
                f"by another version, or is damaged; write the {kind.name} again, to another place."
            )
        if manifest.pop("digest", None) != digest_of_json(manifest):
            self.raise_damaged(MANIFEST, "its contents do not match its digest")
        del manifest["format"]
        return manifest

    def array(self, name: str, *, by_time: bool = False) -> NDArray[Any]:
        """Map an array into memory; ``by_time``, its file is trusted if it has the recorded time."""
        path, entry, state = self._file(name), self.entries[name], self._state(name)
        trusted = by_time and state[1] == entry.mtime_ns
        if not trusted and self._compared.get(name) != state:
            if digest_of_file(path) != entry.digest:
                self.raise_damaged(f"{name}.npy", "its contents do not match its digest")
            self._compared[name] = state
        dtype = np.dtype(entry.dtype)
        header = entry.size - dtype.itemsize * math.prod(entry.shape)
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=header, shape=entry.shape))

    def verify(self) -> list[str]:
        """Compare every byte that was not compared with its digest; return the names of all files."""
        for name in self.entries:
            self.array(name)
        return [MANIFEST, *(f"{name}.npy" for name in self.entries)]

    def raise_damaged(self, file: str, reason: str) -> NoReturn:
        """Raise the error of a damaged file."""
        raise ValueError(f"{self.path / file} is damaged: {reason}. {self._kind.remedy}")

    def _file(self, name: str) -> str:
        return f"{self.path}{os.sep}{name}.npy"

    def _state(self, name: str) -> tuple[int, int]:
        """Return inode and modification time of a file, which must have the size in its entry."""
        path, size = self._file(name), self.entries[name].size
        try:
            found = os.stat(path)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is missing. {self._kind.remedy}") from None
        if found.st_size != size:
            self.raise_damaged(f"{name}.npy", f"it must have {size} bytes and has {found.st_size}")
        return found.st_ino, found.st_mtime_ns


def write_folder(path: Path, kind: Kind, about: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a folder that appears or is replaced as a whole."""
    with replacement_folder(path) as part:
        entries = {name: _write_array(part / f"{name}.npy", array) for name, array in arrays.items()}
        write_manifest(part, kind, about, entries)


def write_manifest(folder: Path, kind: Kind, about: dict[str, Any], entries: Mapping[str, Entry]) -> None:
    """Write a manifest, atomically."""
    arrays = {name: entry._asdict() for name, entry in entries.items()}
    manifest: dict[str, Any] = {"format": kind.format, **about, "arrays": arrays}
    manifest["digest"] = digest_of_json(manifest)
    with atomic_write(folder / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=1).encode())


def sealed(path: Path, array: NDArray[Any]) -> Entry:
    """Set the modification time of a finished file a few seconds back, and return its manifest entry."""
    before = (time.time_ns() // 10**9 - SECONDS_BACK) * 10**9
    os.utime(path, ns=(before, before))
    found = path.stat()
    return Entry(array.dtype.str, array.shape, found.st_size, found.st_mtime_ns, digest_of_file(path))


def _write_array(path: Path, array: NDArray[Any]) -> Entry:
    with path.open("xb") as file:
        np.save(file, array, allow_pickle=False)
    return sealed(path, array)


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """Return the digest of all bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest_of_json(content: dict[str, Any]) -> str:
    """Return the digest of a dictionary of JSON types."""
    return digest_arrays(json.dumps(content, sort_keys=True))


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
