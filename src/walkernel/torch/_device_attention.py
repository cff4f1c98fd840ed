"""The sparse products of masked attention on a device: see ``_attention`` for what they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from walkernel.engines import launching_on, offsets, rows_of
from walkernel.torch._sparse import Structure
from walkernel.torch._triton_attention import add_pieces, contract_rows, spread_rows

LONGEST_PIECE = 2**8
"""Entries of a node up to which one program adds them up."""
SUMS_AT_ONCE = 2**9
"""Numbers that one program adds up over pieces."""


def spread(structure: Structure, entries: Tensor, x: Tensor, y: Tensor) -> Tensor:  # (p, nodes, c, d)
    """Return Φᵀ (x ⊗ y); nodes of many entries are added up in pieces."""
    transposed, order = structure.transposed
    n_members, n_nodes, d, c = x.shape[0], transposed.shape[0], x.shape[2], y.shape[2]
    firsts, begins = _pieces(transposed.indptr)
    pieces = x.new_empty(n_members, begins.numel() - 1, c, d)
    with launching_on(x.device):
        spread_rows[pieces.shape[1], n_members](
            begins, transposed.columns, entries[order], x.contiguous(), y.contiguous(), pieces,
            x.shape[1], d, c, **_blocks(d, c),
        )  # fmt: skip
        if pieces.shape[1] == n_nodes:
            return pieces
        result = x.new_empty(n_members, n_nodes, c, d)
        grid = n_nodes, n_members, -(-d * c // SUMS_AT_ONCE)
        add_pieces[grid](firsts, pieces, result, pieces.shape[1], d * c, SIZE=SUMS_AT_ONCE, num_warps=1)
    return result


def contract(
    structure: Structure,
    entries: Tensor,
    Y: Tensor,
    x: Tensor,
    y: Tensor | None,
    of_entries: Tensor | None,
    of_x: Tensor | None,
    of_y: Tensor | None,
) -> None:
    """Add the derivatives of Σ_i x_iᵀ S_i y_i, S = Φ Y, to the tensors that are given."""
    n_members, n_nodes, c, d = Y.shape
    n_tokens, n_entries = structure.shape[0], structure.columns.numel()
    given = ((of_entries, (n_entries,)), (of_x, (n_tokens, d)), (of_y, (n_tokens, c)))
    added: list[Any] = [None if total is None else Y.new_empty(n_members, *shape) for total, shape in given]
    with launching_on(Y.device):
        contract_rows[n_tokens, n_members](
            structure.indptr, structure.columns, entries, Y,
            x.contiguous(), None if y is None else y.contiguous(), *added,
            n_nodes, n_entries, d, c, **_blocks(d, c),
        )  # fmt: skip
    for (total, _), part in zip(given, added, strict=True):
        if total is not None:
            total += part.sum_to_size(total.shape)  # over the members, which have the same entries


def _blocks(d: int, c: int) -> dict[str, Any]:
    """Return the powers of two that d and c are padded to, for programs of one warp."""
    return {"D": 1 << (d - 1).bit_length(), "C": 1 << (c - 1).bit_length(), "num_warps": 1}


def _pieces(indptr: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first piece of each row, (rows + 1,), and the first entry of each piece, (pieces + 1,)."""
    counts = ((indptr.diff() + LONGEST_PIECE - 1) // LONGEST_PIECE).clamp(min=1)
    firsts = offsets(counts)
    rows = rows_of(firsts)
    within = torch.arange(rows.numel(), device=indptr.device) - firsts[rows]
    return firsts, torch.cat([indptr[rows] + within * LONGEST_PIECE, indptr[-1:].long()])
