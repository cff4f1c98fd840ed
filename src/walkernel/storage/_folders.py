"""Graph stores: a folder of plain arrays that are mapped into memory, not read, and their manifest.

    manifest.json                what the graph is, and each array's type, shape, size, time and digest
    indptr.npy  indices.npy      the CSR matrix
    weights.npy                  if the graph has weights
    node_labels.npy              if the graph has labels: text or int64
    alias-….npy  alias-….json    cached when a graph with weights is first walked on, and its record

Opening a store takes constant time: a file whose size and modification time match the manifest is trusted. A
file with another modification time, for instance a copy, is compared by its digest. ``verify_store`` compares
all files. Recorded modification times lie a few seconds in the past, so that every later change is noticed.
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
from walkernel.storage._passes import any_entry

FORMAT = "walkernel graph store 1"
KIND = FORMAT.rpartition(" ")[0]
MANIFEST = "manifest.json"
ARRAYS = {"indptr": ("<i8",), "indices": ("<i4", "<i8"), "weights": ("<f8",), "node_labels": ("<i8", "<U")}
"""Arrays of a store, in the order of the fingerprint, and the types that they may have."""
NEEDED = ("indptr", "indices")
CACHE_PREFIX = "alias-"
"""Prefix of the names of cached files; see ``_cached``."""
FIELDS = {
    "format": str, "n_nodes": int, "directed": bool, "n_self_loops": int, "fingerprint": str, "arrays": dict,
}  # fmt: skip
CHUNK = 2**23
SECONDS_BACK = 10
RESTORE = "Write the store again or restore the file from a copy."


class Entry(NamedTuple):
    """The manifest's entry of an array's file."""

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
    """``n_self_loops`` and ``fingerprint``, which need not be computed again."""
    names: str
    """Digest of the labels, empty if there are none."""


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder with the manifest of a graph store, damaged or not."""
    try:
        return KIND.encode() in Path(path, MANIFEST).read_bytes()
    except OSError:
        return False


# writing ------------------------------------------------------------------------------------------------


def write_store(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any] | None], about: dict[str, Any]
) -> None:
    """Write arrays, and what is known ``about`` their graph, to a folder that appears only when complete."""
    target = Path(path).resolve()
    _check_replaceable(target)
    with _replacing_folder(target) as folder:
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
    """Write an array as a .npy file, chunk by chunk, and return its manifest entry."""

    def chunks() -> Iterator[Any]:
        yield _header(array)
        flat = np.ascontiguousarray(array).view(np.uint8)
        for begin in range(0, flat.size, CHUNK):
            yield flat[begin : begin + CHUNK].data

    digest = _write_through(path, chunks())
    return sealed(path, array.dtype.str, array.shape, digest)


def sealed(path: Path, dtype: str, shape: tuple[int, ...], digest: str) -> Entry:
    """Set the modification time of a finished file a few seconds back, and return its manifest entry."""
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
    """Write chunks to a new file, flush it to the disk, and return their digest."""
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


def _check_replaceable(target: Path) -> None:
    """Refuse to replace anything but an empty folder and a store with nothing else in it."""
    rule = "a new folder, an empty folder or a graph store"
    if not target.exists():
        return
    if not target.is_dir():
        refuse("path", rule, Described(f"the file {target}"), "Give another name, or remove the file.")
    own = (MANIFEST, *(f"{name}.npy" for name in ARRAYS))
    present = sorted(os.listdir(target))
    foreign = [name for name in present if name not in own and not name.lstrip(".").startswith(CACHE_PREFIX)]
    remedy = "Nothing was changed. Give another name, or remove the folder yourself."
    if foreign:
        refuse("path", rule, Described(f"the folder {target} with {foreign[0]!r} in it"), remedy)
    if present and not is_store(target):
        refuse("path", rule, Described(f"the folder {target} without a manifest"), remedy)


@contextmanager
def _replacing_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder that replaces ``target`` when the block ends, or is removed if it fails."""
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
            _raise_damaged(folder / f"{name}.npy", f"its shape must be ({lengths[name]},), not {array.shape}")
    if arrays["indptr"][0] != 0 or arrays["indptr"][-1] != n_entries:
        _raise_damaged(folder / "indptr.npy", f"rows must go from 0 to {n_entries}")
    names = entries["node_labels"].digest if "node_labels" in entries else ""
    facts: dict[Hashable, Any] = {key: manifest[key] for key in ("n_self_loops", "fingerprint")}
    return Stored(folder, arrays, manifest["directed"], facts, names)


def read_manifest(folder: Path) -> tuple[dict[str, Any], dict[str, Entry]]:
    """Return the manifest, and its entry of each array."""
    path = folder / MANIFEST
    if not folder.exists():
        raise FileNotFoundError(f"There is no graph store {folder}.")
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a graph store: it contains no {MANIFEST}.")
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        _raise_damaged(path, f"it is not JSON ({error})")
    if not isinstance(manifest, dict) or "format" not in manifest:
        _raise_damaged(path, "it does not state its format")
    if manifest["format"] != FORMAT:
        raise ValueError(
            f"{path}: expected the format {FORMAT!r}, found {manifest['format']!r}. "
            "It was written by another version, or is damaged; write the store again with this one."
        )
    if manifest.get("digest") != digest_of_json(manifest):
        _raise_damaged(path, "its contents do not match its digest")
    for key, kind in FIELDS.items():
        if type(manifest.get(key)) is not kind:
            _raise_damaged(path, f"it must have {key!r}, of type {kind.__name__}")
    return manifest, _entries(path, manifest["arrays"])


def _entries(path: Path, arrays: dict[str, Any]) -> dict[str, Entry]:
    """Return the manifest's entries of arrays, checked."""
    for name in NEEDED:
        if name not in arrays:
            _raise_damaged(path, f"it lists no array {name!r}")
    entries = {}
    for name, fields in arrays.items():
        try:
            entry = Entry(**fields)._replace(shape=tuple(fields["shape"]))
            fits = entry.dtype.startswith(ARRAYS[name])
        except (TypeError, KeyError, AttributeError):
            _raise_damaged(path, f"its entry {name!r} is not an array of a graph")
        if not fits:
            _raise_damaged(path, f"{name!r} cannot have the type {entry.dtype!r}")
        entries[name] = entry
    return entries


def open_array(path: Path, entry: Entry, *, in_full: bool = False) -> NDArray[Any]:
    """Map an array's file if it matches its entry; compare digests if ``in_full`` or its time differs."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing from the graph store. {RESTORE}") from None
    if found.st_size != entry.size:
        _raise_damaged(path, f"it must have {entry.size} bytes and has {found.st_size}")
    if (in_full or found.st_mtime_ns != entry.mtime_ns) and digest_of_file(path) != entry.digest:
        _raise_damaged(path, "its contents do not match its digest")
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, SyntaxError, TypeError, EOFError, OverflowError) as error:
        _raise_damaged(path, f"it is not an array ({error})")
    if (array.dtype.str, array.shape) != (entry.dtype, entry.shape):
        got = f"{array.dtype.str} {array.shape}"
        _raise_damaged(path, f"it must hold {entry.dtype} {entry.shape} and holds {got}")
    return np.asarray(array)


def verify_store(path: str | os.PathLike[str]) -> list[str]:
    """Compare every byte of a store with its digests; return the names of the files read."""
    folder = Path(path).absolute()
    manifest, entries = read_manifest(folder)
    files = {name: folder / f"{name}.npy" for name in entries}
    arrays = {name: open_array(files[name], entry, in_full=True) for name, entry in entries.items()}
    if any_entry(np.diff(arrays["indptr"]), lambda count: count < 0):
        _raise_damaged(folder / "indptr.npy", "its rows overlap")
    if any_entry(arrays["indices"], lambda node: (node < 0) | (node >= manifest["n_nodes"])):
        _raise_damaged(folder / "indices.npy", f"nodes must be from 0 to {manifest['n_nodes'] - 1}")
    return [MANIFEST, *(file.name for file in files.values())]


def _raise_damaged(path: Path, what: str) -> NoReturn:
    raise ValueError(f"{path} is damaged: {what}. {RESTORE}")


def digest_of_json(manifest: dict[str, Any]) -> str:
    """Return the digest of a record, without its own entry ``digest``."""
    text = json.dumps({key: manifest[key] for key in manifest if key != "digest"}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
