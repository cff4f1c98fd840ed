"""CSR arrays that are taken as they are: checked in a few passes, and not sorted.

The arrays are NumPy's or tensors of PyTorch on any device; the checks are made where they are. Symmetry is
checked without a transpose: with a hash h of row, column and weight, Σ h(i, j, a_ij) over all entries equals
Σ h(j, i, a_ij) modulo 2⁶⁴ if the matrix is symmetric, and by chance only with a probability of 2⁻⁶⁴ if not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel.graph._assembly import Arrays, check_sizes

ENTRIES_AT_ONCE = 2**24
MULTIPLIERS = (-7046029254386353131, -4417276706812531889, 1609587929392839161, -8796714831421723037)
"""Odd numbers of 64 bits."""
SHIFTS = (29, 32)


def is_tensor(array: object) -> bool:
    """Tell whether an array is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def read_csr(indptr: Any, indices: Any, weights: Any, directed: bool) -> tuple[Arrays, int]:
    """Check CSR arrays, all of NumPy or all tensors, and return them in memory, with the number of loops."""
    if is_tensor(indptr) != is_tensor(indices) or (
        weights is not None and is_tensor(weights) != is_tensor(indptr)
    ):
        refuse("indices", "an array like indptr, all of NumPy or all tensors", indices, error=TypeError)
    if not is_tensor(indptr):
        indptr, indices = (
            np.asarray(each) if np.size(each) else np.empty(0, int) for each in (indptr, indices)
        )
        weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    for name, array in (("indptr", indptr), ("indices", indices), ("weights", weights)):
        if array is not None and (array.ndim != 1 or ("int" in str(array.dtype)) != (name != "weights")):
            kind = "numbers" if name == "weights" else "whole numbers"
            got = Described(f"shape {tuple(array.shape)} of {array.dtype}")
            refuse(name, f"one-dimensional, of {kind}", got, error=TypeError)
    _check_rows(indptr, indices, weights)
    difference, n_loops = 0, 0
    for rows, columns, values, overlaps in _parts(indptr, indices, weights):
        _check_columns(rows, columns, int(indptr.shape[0]) - 1)
        n_loops += int((rows == columns)[int(overlaps) :].sum())
        if not directed:
            change = _hashes(rows, columns, values) - _hashes(columns, rows, values)
            difference += int(change.sum()) - (int(change[0]) if overlaps else 0)
    if difference % 2**64:
        remedy = "Give every edge in both directions, with the same weight, or pass directed=True."
        refuse("indices", "those of a symmetric matrix", Described("a matrix that is not"), remedy)
    small = np.int32 if indptr.shape[0] - 1 <= np.iinfo(np.int32).max else np.int64
    values = None if weights is None else _on_host(weights, np.float64)
    if values is not None:
        if not np.isfinite(values).all() or not values.all():
            refuse("weights", "finite and not zero", Described("others"), "Leave edges of weight zero out.")
        check_sizes("weights", np.abs(values))
        values = None if (values == 1.0).all() else values
    return Arrays(_on_host(indptr, np.int64), _on_host(indices, small), values), n_loops


def _check_rows(indptr: Any, indices: Any, weights: Any) -> None:
    """Refuse row pointers that do not fit the entries."""
    n, size = int(indptr.shape[0]) - 1, int(indices.shape[0])
    if n < 1:
        refuse("indptr", "that of at least one node", Described(f"{n + 1} numbers"))
    ends = int(indptr[0]), int(indptr[-1])
    if ends != (0, size) or bool((indptr[1:] < indptr[:-1]).any()):
        rule = f"ascending from 0 to {size}, the number of indices"
        refuse("indptr", rule, Described(f"{ends[0]} … {ends[1]}"))
    if weights is not None and int(weights.shape[0]) != size:
        refuse("weights", f"one for each of {size} indices", Described(f"{int(weights.shape[0])}"))


def _parts(indptr: Any, indices: Any, weights: Any) -> Iterator[tuple[Any, Any, Any, bool]]:
    """Yield rows, columns and weights of some entries, and whether the first is the last of those before."""
    size = int(indices.shape[0])
    for first in range(0, size, ENTRIES_AT_ONCE):
        begin, end = max(0, first - 1), min(first + ENTRIES_AT_ONCE, size)
        columns = indices[begin:end]
        if is_tensor(indptr):
            torch = sys.modules["torch"]
            places = torch.arange(begin, end, device=indptr.device)
            rows, columns = torch.searchsorted(indptr, places, right=True) - 1, columns.long()
            values = None if weights is None else weights[begin:end].double().view(torch.int64)
        else:
            rows = np.searchsorted(indptr, np.arange(begin, end), side="right") - 1
            columns = columns.astype(np.int64)
            values = None if weights is None else weights[begin:end].view(np.int64)
        yield rows, columns, values, begin < first


def _check_columns(rows: Any, columns: Any, n: int) -> None:
    """Refuse columns that are no nodes, or not in ascending order within each row."""
    if bool((columns < 0).any()) or bool((columns >= n).any()):
        refuse("indices", f"from 0 to {n - 1}", Described(f"{int(columns.min())} … {int(columns.max())}"))
    if bool(((rows[1:] == rows[:-1]) & (columns[1:] <= columns[:-1])).any()):
        remedy = "Sort the indices of each row and sum repeated ones, or use Graph.from_edges."
        refuse("indices", "ascending in each row, none twice", Described("others"), remedy)


def _hashes(rows: Any, columns: Any, values: Any) -> Any:
    """Return a hash of each entry as a signed word; products are modulo 2⁶⁴."""
    words = rows * MULTIPLIERS[0] + columns * MULTIPLIERS[1]
    words = words if values is None else words + values * MULTIPLIERS[2]
    for shift in SHIFTS:
        words = (words ^ (words >> shift)) * MULTIPLIERS[3]
    return words ^ (words >> SHIFTS[0])


def _on_host(array: Any, dtype: Any) -> NDArray[Any]:
    """Return a copy of an array in the memory of this process."""
    return (
        array.detach().cpu().numpy().astype(dtype, copy=array.device.type == "cpu")
        if is_tensor(array)
        else array.astype(dtype)
    )
