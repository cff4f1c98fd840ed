"""Arrays in files: folders with a manifest, blocks of rows, tables that are cached, passes in parts."""

from walkernel.storage._blocks import Block, digest_of, exclusive, raise_damaged, write_block
from walkernel.storage._cached import cached_array, verify_cached
from walkernel.storage._folders import (
    MANIFEST,
    Stored,
    digest_of_json,
    is_store,
    open_store,
    verify_store,
    write_store,
)
from walkernel.storage._passes import any_entry, column_sums, count_self_loops, digest_arrays, row_sums

__all__ = [
    "MANIFEST",
    "Block",
    "Stored",
    "any_entry",
    "cached_array",
    "column_sums",
    "count_self_loops",
    "digest_arrays",
    "digest_of",
    "digest_of_json",
    "exclusive",
    "is_store",
    "open_store",
    "raise_damaged",
    "row_sums",
    "verify_cached",
    "verify_store",
    "write_block",
    "write_store",
]
