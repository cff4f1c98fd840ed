"""Arrays in files: folders with a manifest, tables that are cached, passes in parts."""

from walkernel.storage._cached import CACHE_PREFIX, cached_array, verify_cached
from walkernel.storage._folders import (
    MANIFEST,
    Folder,
    Kind,
    digest_of_json,
    exclusive,
    write_folder,
    write_manifest,
)
from walkernel.storage._passes import any_entry, column_sums, count_self_loops, digest_arrays, row_sums

__all__ = [
    "CACHE_PREFIX",
    "MANIFEST",
    "Folder",
    "Kind",
    "any_entry",
    "cached_array",
    "column_sums",
    "count_self_loops",
    "digest_arrays",
    "digest_of_json",
    "exclusive",
    "row_sums",
    "verify_cached",
    "write_folder",
    "write_manifest",
]
