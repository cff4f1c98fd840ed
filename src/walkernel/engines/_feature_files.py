"""The files of stored features: ``manifest.json``, with a digest of itself, and one file per block of rows.

The manifest contains everything that determines the bits of the blocks. Each block stores a digest of it, so
that a block of other features is never mistaken for one of these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._files import atomic_write
from walkernel.engines._base import FeatureJob
from walkernel.features import FeatureMatrix, block_edges
from walkernel.storage import Block, digest_of, digest_of_json, raise_damaged, write_block
from walkernel.walks import identity, sampler_fields

FORMAT = "walkernel features 2"
MANIFEST = "manifest.json"
BLOCK = "block-"
"""Prefix of the names of block files."""
ARRAYS = ("indptr", "indices", "data", "norms")


def description_of(job: FeatureJob, precision: str) -> dict[str, Any]:
    """Return everything that determines the bits of the features, as JSON types."""
    own = job.spec
    return {
        "format": FORMAT,
        "graph": identity(own.graph),
        "n_nodes": own.graph.n_nodes,
        "nodes": digest_of(own.ids),
        "n_rows": int(own.ids.size),
        "matrix": own.matrix,
        "transpose": own.transpose,
        "sampler": json.loads(json.dumps(sampler_fields(own.sampler))),
        "n_walks": own.n_walks,
        "seed": own.seed,
        "streams": list(job.streams),
        "f": job.f.tolist(),
        "with_norms": job.with_norms,
        "head_apart": job.separate_heads,
        "precision": precision,
    }


def fingerprint(manifest: dict[str, Any]) -> str:
    """Return a digest of everything that determines the bits, which the block size does not."""
    determining = {key: value for key, value in manifest.items() if key != "block_size"}
    return digest_of(np.frombuffer(json.dumps(determining, sort_keys=True).encode(), dtype=np.uint8))


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest, with a digest of itself."""
    with atomic_write(folder / MANIFEST) as file:
        file.write(json.dumps(manifest | {"digest": digest_of_json(manifest)}, indent=1).encode())
        file.flush()
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder, or raise an error if there is none or it is not valid."""
    path = folder / MANIFEST
    if not path.exists():
        raise FileNotFoundError(f"There are no features in {folder}: it has no {MANIFEST}.")
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        raise_damaged(path, f"it is not JSON ({error})")
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise_damaged(path, "it does not state its format")
    if manifest["format"] != FORMAT:
        raise ValueError(
            f"{path}: expected the format {FORMAT!r}, found {manifest['format']!r}. It was written by "
            "another version, or is damaged; write the features again, to another directory."
        )
    if manifest.pop("digest", None) != digest_of_json(manifest):
        raise_damaged(path, "its contents do not match its digest")
    return manifest


def ranges_of(manifest: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the first row of each block, and the one after its last."""
    return list(pairwise(block_edges(manifest["n_rows"], manifest["block_size"]).tolist()))


def block_path(folder: Path, number: int) -> Path:
    """Return the path of a block."""
    return folder / f"{BLOCK}{number:06d}"


def missing_blocks(folder: Path, manifest: dict[str, Any]) -> list[int]:
    """Return the numbers of the blocks that do not exist."""
    return [number for number in range(len(ranges_of(manifest))) if not block_path(folder, number).exists()]


def open_blocks(folder: Path, manifest: dict[str, Any]) -> list[Block]:
    """Open the existing blocks, and refuse a block of other features or rows."""
    blocks, description = [], fingerprint(manifest)
    for number, (first, last) in enumerate(ranges_of(manifest)):
        path = block_path(folder, number)
        if not path.exists():
            continue
        block = Block(path)
        if block.about["of"] != description:
            raise_damaged(path, "it belongs to other features")
        own = (block.about["first"], block.about["last"])
        if own != (first, last):
            raise_damaged(path, f"it has the rows {own[0]} to {own[1]} instead of {first} to {last}")
        blocks.append(block)
    return blocks


def joined(blocks: list[Block], name: str) -> NDArray[Any]:
    """Return an array of all blocks, joined; one block is mapped at a time, to limit open files."""
    return np.concatenate([np.array(block.array(name)) for block in blocks])


def write_rows(
    folder: Path,
    number: int,
    manifest: dict[str, Any],
    ids: NDArray[np.int64],
    found: Iterable[FeatureMatrix],
) -> None:
    """Write the features of a block of rows, those of some start nodes."""
    rows, place = list(found), ranges_of(manifest)[number]
    arrays = {"ids": ids}
    for result, features in enumerate(rows):
        matrix = features.to_scipy()
        parts = (matrix.indptr, matrix.indices, matrix.data, features.norms)
        arrays |= {f"{name}.{result}": array for name, array in zip(ARRAYS, parts, strict=True)}
    about = {
        "first": place[0],
        "last": place[1],
        "of": fingerprint(manifest),
        "nnz": [features.nnz for features in rows],
        "n_steps": [int(features.n_steps) for features in rows],
    }
    write_block(block_path(folder, number), arrays, about)
