"""Files that are whole or not there: what is written appears under its name only once it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from walkernel._checks import refuse

MAX_LINKS = 40
"""Symbolic links that are followed one after the other, as in the kernel of Linux."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a binary file that becomes ``path`` when the block ends, and vanishes if the block fails.

    A regular file is replaced in one step: until then, the file that was there before stays whole. Its owner
    and its permissions are kept. A symbolic link stays, and the file that it points to is replaced. A device,
    a pipe or an open descriptor (``/dev/stdout``) cannot be replaced: the bytes are collected in a temporary
    file, in which any format may seek, and are copied there when the block ends.
    """
    if _is_special(path):
        with _open_special(path) as special, tempfile.TemporaryFile() as collected:
            yield cast(IO[bytes], collected)
            collected.seek(0)
            shutil.copyfileobj(collected, special)
        return
    with replacement(path) as temporary, temporary.open("r+b") as file:
        yield file


@contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty file that takes the place of a regular file when the block ends."""
    target = Path(os.path.realpath(path))
    check_writable(path)
    temporary = _beside(target, "part")
    try:
        with temporary.open("xb") as file:
            if target.exists() and hasattr(os, "fchown"):
                before = target.stat()
                with suppress(PermissionError):  # only root may give a file to somebody else
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacement_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of another when the block ends, with its files on the disk."""
    target = path.resolve()
    folder, old = _beside(target, "part"), _beside(target, "old")
    try:
        folder.mkdir()
        yield folder
        sync_files(*folder.iterdir())
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(folder, target)
        except BaseException:
            if old.exists():
                os.rename(old, target)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def sync_files(*paths: Path) -> None:
    """Flush files to the disk, all at the same time: file systems then commit only once."""

    def sync(path: Path) -> None:
        with path.open("r+b") as file:
            os.fsync(file.fileno())

    with ThreadPoolExecutor() as pool:
        list(pool.map(sync, paths))


def _beside(target: Path, end: str) -> Path:
    """Return a new name in the same folder, so that the renaming is one step of the file system."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.{end}")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the OSError that writing a file would end with, as far as it can be foreseen."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"Cannot write the file {path}: a folder has that name.")
    if os.path.exists(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"Cannot write the file {path}: it is read-only.")
        if _is_special(path):
            return
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(f"Cannot write the file {path}: its symbolic links lead in a circle.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"Nothing can be written to the folder {target.parent}.")


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Tell whether ``path`` is a device, a pipe or a descriptor, which cannot be replaced."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _open_special(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a device, a pipe or a descriptor for writing, the last where others have written up to now."""
    descriptor = _descriptor(path)
    if descriptor is None:
        return os.fdopen(os.open(path, os.O_WRONLY), "wb")
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    return os.fdopen(os.dup(descriptor), "wb")


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the descriptor of this process that a path such as ``/dev/stdout`` stands for."""
    place = os.fspath(path)
    for _ in range(MAX_LINKS):
        folder, name = os.path.split(place)
        if name.isdecimal() and os.path.realpath(folder) == os.path.realpath("/proc/self/fd"):
            return int(name)
        if not os.path.islink(place):
            return None
        place = os.path.join(folder, os.readlink(place))
    return None


def remove_unfinished(directory: Path, names: str) -> None:
    """Remove what is left of files and folders with such names whose writers were killed."""
    for path in directory.glob(f".{names}.*.part"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if it is a file, or say that it is missing or a folder."""
    found = Path(path)
    if found.is_dir():
        raise IsADirectoryError(f"Cannot read the file {found}: it is a folder.")
    if not found.exists():
        raise FileNotFoundError(f"There is no file {found} (looked for in {Path.cwd()}).")
    return found


def file_path(path: object, suffix: str | None = None, parameter: str = "path") -> Path:
    """Return ``path`` as a Path, or refuse it; ``suffix`` is the only one accepted, in any case."""
    if not isinstance(path, (str, os.PathLike)):
        refuse(parameter, "a path", path, error=TypeError)
    result = Path(os.fsdecode(path))
    if suffix is not None and result.suffix.lower() != suffix:
        refuse("path", f"a file name that ends in {suffix}", str(result), "No other format is written.")
    return result


def write_archive(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays, none of them of Python objects, as a NumPy archive, atomically."""
    with atomic_write(path) as file:
        np.savez(file, allow_pickle=False, **arrays)
