"""Graph stores: a folder of plain arrays that are mapped into memory, not read, and a manifest of them.

    manifest.json                what the graph is, and each array's type, shape, size, time and digest
    indptr.npy  indices.npy      the CSR matrix
    weights.npy                  if it has weights
    node_labels.npy              if it has labels: text or int64
    alias-….npy  alias-….json    made when a graph with weights is first walked on, and its own record

To open a store costs nothing that grows with it: a file whose size and time of change are those of the
manifest is taken for what was written. One with another time, touched or copied, is compared by its digest.
``verify_store`` compares all. Times lie in the past when they are recorded, so that every later change shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel._chunks import any_entry

FORMAT = "walkernel graph store 1"
KIND = FORMAT.rpartition(" ")[0]
MANIFEST = "manifest.json"
ARRAYS = {"indptr": ("<i8",), "indices": ("<i4", "<i8"), "weights": ("<f8",), "node_labels": ("<i8", "<U")}
"""Arrays of a store, in the order of the fingerprint, and the types that they may have."""
NEEDED = ("indptr", "indices")
MADE = "alias-"
"""How the names of files begin that are made of a store later; see ``_made``."""
FIELDS = {
    "format": str, "n_nodes": int, "directed": bool, "n_self_loops": int, "fingerprint": str, "arrays": dict,
}  # fmt: skip
CHUNK = 2**23
SECONDS_BACK = 10
RESTORE = "Write the store again or restore the file from a copy."


class Entry(NamedTuple):
    """What is known of the file of an array."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    mtime_ns: int
    digest: str


class Stored(NamedTuple):
    """An opened store: its folder, the mapped arrays, and what the manifest says of the graph."""

    folder: Path
    arrays: dict[str, NDArray[Any]]
    directed: bool
    facts: dict[Hashable, Any]
    """``n_self_loops`` and ``fingerprint``, which nobody needs to compute again."""
    names: str
    """Digest of the labels, empty if there are none."""


def is_store(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a folder with the manifest of a graph store, damaged or not."""
    try:
        return KIND.encode() in Path(path, MANIFEST).read_bytes()
    except OSError:
        return False


# writing ------------------------------------------------------------------------------------------------


def write_store(
    owner: str, path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any] | None], about: dict[str, Any]
) -> None:
    """Write arrays and what is known ``about`` their graph as a folder that is whole or not there."""
    target = Path(path).resolve()
    _check_replaceable(owner, target)
    with _folder_that_becomes(target) as folder:
        kept = {name: array for name, array in arrays.items() if array is not None}
        entries = {name: write_array(folder / f"{name}.npy", array) for name, array in kept.items()}
        write_manifest(folder, about, entries)


def write_manifest(folder: Path, about: dict[str, Any], entries: Mapping[str, Entry]) -> None:
    """Write the manifest, with a digest of itself."""
    manifest = {"format": FORMAT, **about, "arrays": {name: e._asdict() for name, e in entries.items()}}
    manifest["digest"] = digest_of_json(manifest)
    text = json.dumps(manifest, indent=1)
    _write_through(folder / MANIFEST, [text.encode()])


def write_array(path: Path, array: NDArray[Any]) -> Entry:
    """Write an array as a .npy file, chunk by chunk, and return what is known of the file."""

    def chunks() -> Iterator[Any]:
        yield _header(array)
        flat = np.ascontiguousarray(array).view(np.uint8)
        for begin in range(0, flat.size, CHUNK):
            yield flat[begin : begin + CHUNK].data

    digest = _write_through(path, chunks())
    return sealed(path, array.dtype.str, array.shape, digest)


def sealed(path: Path, dtype: str, shape: tuple[int, ...], digest: str) -> Entry:
    """Set the time of a finished file some seconds back, and return what is known of it."""
    before = (time.time_ns() // 10**9 - SECONDS_BACK) * 10**9
    os.utime(path, ns=(before, before))
    found = path.stat()
    return Entry(dtype, shape, found.st_size, found.st_mtime_ns, digest)


def digest_of_file(path: Path) -> str:
    """Return the digest of all bytes of a file."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _header(array: NDArray[Any]) -> bytes:
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return header.getvalue()


def _write_through(path: Path, chunks: Any) -> str:
    """Write chunks to a new file and to the disk, and return their digest."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("xb") as file:
        for chunk in chunks:
            put(file, chunk)
            digest.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def put(file: IO[bytes], chunk: Any) -> None:
    """Write one chunk."""
    file.write(chunk)


def _check_replaceable(owner: str, target: Path) -> None:
    """Refuse to replace anything but an empty folder and a store with nothing else in it."""
    rule = "a new folder, an empty one or a graph store"
    if not target.exists():
        return
    if not target.is_dir():
        refuse(owner, "path", rule, Described(f"the file {target}"), "Give another name, or remove the file.")
    own = (MANIFEST, *(f"{name}.npy" for name in ARRAYS))
    there = sorted(os.listdir(target))
    foreign = [name for name in there if name not in own and not name.lstrip(".").startswith(MADE)]
    remedy = "Nothing was changed. Give another name, or remove the folder yourself."
    if foreign:
        refuse(owner, "path", rule, Described(f"the folder {target} with {foreign[0]!r} in it"), remedy)
    if there and not is_store(target):
        refuse(owner, "path", rule, Described(f"the folder {target} without a manifest of one"), remedy)


@contextmanager
def _folder_that_becomes(target: Path) -> Iterator[Path]:
    """Yield a new folder beside ``target`` that takes its place when the block ends, or vanishes."""
    token = secrets.token_hex(6)
    folder, old = (target.with_name(f".{target.name}.{token}.{end}") for end in ("part", "old"))
    folder.mkdir()
    try:
        yield folder
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(folder, target)
        except BaseException:
            if old.exists():
                os.rename(old, target)
            raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


# opening ------------------------------------------------------------------------------------------------


def open_store(path: str | os.PathLike[str]) -> Stored:
    """Map the arrays of a store, and refuse one that is damaged."""
    folder = Path(path).absolute()
    manifest, entries = read_manifest(folder)
    arrays = {name: open_array(folder / f"{name}.npy", entry) for name, entry in entries.items()}
    n_nodes, n_entries = manifest["n_nodes"], arrays["indices"].size
    lengths = {"indptr": n_nodes + 1, "indices": n_entries, "weights": n_entries, "node_labels": n_nodes}
    for name, array in arrays.items():
        if array.shape != (lengths[name],):
            _damaged(folder / f"{name}.npy", f"its shape must be ({lengths[name]},), not {array.shape}")
    if arrays["indptr"][0] != 0 or arrays["indptr"][-1] != n_entries:
        _damaged(folder / "indptr.npy", f"rows must go from 0 to {n_entries}")
    names = entries["node_labels"].digest if "node_labels" in entries else ""
    facts: dict[Hashable, Any] = {key: manifest[key] for key in ("n_self_loops", "fingerprint")}
    return Stored(folder, arrays, manifest["directed"], facts, names)


def read_manifest(folder: Path) -> tuple[dict[str, Any], dict[str, Entry]]:
    """Return what a manifest says of the graph, and of each array."""
    path = folder / MANIFEST
    if not folder.exists():
        raise FileNotFoundError(f"There is no graph store {folder}.")
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no graph store: there is no {MANIFEST} in it.")
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        _damaged(path, f"it is no JSON ({error})")
    if not isinstance(manifest, dict) or "format" not in manifest:
        _damaged(path, "it does not say what format it has")
    if manifest["format"] != FORMAT:
        raise ValueError(
            f"{path}: expected the format {FORMAT!r}, found {manifest['format']!r}. "
            "It was written by another version, or is damaged; write the store again with this one."
        )
    if manifest.get("digest") != digest_of_json(manifest):
        _damaged(path, "it is not what was written")
    for key, kind in FIELDS.items():
        if type(manifest.get(key)) is not kind:
            _damaged(path, f"{key!r} must be there, of type {kind.__name__}")
    return manifest, _entries(path, manifest["arrays"])


def _entries(path: Path, arrays: dict[str, Any]) -> dict[str, Entry]:
    """Return the manifest's entries of arrays, checked."""
    for name in NEEDED:
        if name not in arrays:
            _damaged(path, f"there is no array {name!r} in it")
    entries = {}
    for name, fields in arrays.items():
        try:
            entry = Entry(**fields)._replace(shape=tuple(fields["shape"]))
            fits = entry.dtype.startswith(ARRAYS[name])
        except (TypeError, KeyError, AttributeError):
            _damaged(path, f"its entry of {name!r} is not one of a graph")
        if not fits:
            _damaged(path, f"{name!r} cannot be of type {entry.dtype!r}")
        entries[name] = entry
    return entries


def open_array(path: Path, entry: Entry, *, in_full: bool = False) -> NDArray[Any]:
    """Map an array's file, if it is what the entry says; compare digests if its time differs, or in full."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing from the graph store. {RESTORE}") from None
    if found.st_size != entry.size:
        _damaged(path, f"it must have {entry.size} bytes and has {found.st_size}")
    if (in_full or found.st_mtime_ns != entry.mtime_ns) and digest_of_file(path) != entry.digest:
        _damaged(path, "its contents are not those that were written")
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, SyntaxError, TypeError, EOFError, OverflowError) as error:
        _damaged(path, f"it is no array ({error})")
    if (array.dtype.str, array.shape) != (entry.dtype, entry.shape):
        got = f"{array.dtype.str} {array.shape}"
        _damaged(path, f"it must hold {entry.dtype} {entry.shape} and holds {got}")
    return np.asarray(array)


def verify_store(path: str | os.PathLike[str]) -> list[str]:
    """Compare every byte of a store with its digests; return the names of the files that were read."""
    folder = Path(path).absolute()
    manifest, entries = read_manifest(folder)
    files = {name: folder / f"{name}.npy" for name in entries}
    arrays = {name: open_array(files[name], entry, in_full=True) for name, entry in entries.items()}
    if any_entry(np.diff(arrays["indptr"]), lambda count: count < 0):
        _damaged(folder / "indptr.npy", "its rows overlap")
    if any_entry(arrays["indices"], lambda node: (node < 0) | (node >= manifest["n_nodes"])):
        _damaged(folder / "indices.npy", f"nodes must be from 0 to {manifest['n_nodes'] - 1}")
    return [MANIFEST, *(file.name for file in files.values())]


def _damaged(path: Path, what: str) -> NoReturn:
    raise ValueError(f"{path} is damaged: {what}. {RESTORE}")


def digest_of_json(manifest: dict[str, Any]) -> str:
    """Return the digest of all but the digest in a record."""
    text = json.dumps({key: manifest[key] for key in manifest if key != "digest"}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
