"""Masked linear attention as Triton kernels: outer products of tokens are made and contracted in registers.

A program of ``spread_rows`` adds up φ_in x_i ⊗ y_i over the entries of one node, and reads d + c numbers for
each; one of ``contract_rows`` adds up φ_in Y_n over the entries of one token, and reads d · c. The index of
the next entry is loaded along with the numbers of this one, so that no load waits for another in a step.
Matrices are stored with d last: lanes load four numbers at once if it is a multiple of four, which is rare
for c = d_v + 1. Members of a batch have programs of their own. Every sum has a fixed order, so that two runs
give the same bits.
"""

# mypy: ignore-errors
# Triton compiles these functions, and knows no annotations but its own.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def spread_rows(
    begins,  # (pieces + 1,): where the entries of a piece of a row begin
    rows,  # (entries,): the token of each entry
    entries,  # (entries,)
    x,  # (p, n, d)
    y,  # (p, n, c)
    result,  # (p, pieces, c, d), filled
    n_tokens,
    d: tl.constexpr,
    c: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
):
    """Add up entry · x ⊗ y over a piece of a row of the transpose."""
    piece, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i, j = tl.arange(0, D)[None, :], tl.arange(0, C)[:, None]
    total = tl.zeros([C, D], dtype=result.dtype.element_ty)
    begin, end = tl.load(begins + piece), tl.load(begins + piece + 1)
    row = tl.load(rows + begin, mask=begin < end, other=0)
    for at in range(begin, end):
        token = member * n_tokens + row
        row = tl.load(rows + at + 1, mask=at + 1 < end, other=0)
        own = tl.load(x + token * d + i, mask=i < d, other=0.0) * tl.load(entries + at)
        total += own * tl.load(y + token * c + j, mask=j < c, other=0.0)
    place = (member * tl.num_programs(0) + piece) * d * c
    tl.store(result + place + (j * d + i), total, mask=(i < d) & (j < c))


@triton.jit
def add_pieces(
    begins,  # (nodes + 1,): where the pieces of a row begin
    pieces,  # (p, pieces, size)
    result,  # (p, nodes, size), filled
    n_pieces,
    size,
    SIZE: tl.constexpr,
):
    """Add up the pieces of a row."""
    node, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    place = tl.program_id(2) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros([SIZE], dtype=result.dtype.element_ty)
    for piece in range(tl.load(begins + node), tl.load(begins + node + 1)):
        total += tl.load(pieces + (member * n_pieces + piece) * size + place, mask=place < size, other=0.0)
    tl.store(result + (member * tl.num_programs(0) + node) * size + place, total, mask=place < size)


@triton.jit
def contract_rows(
    begins,  # (n + 1,)
    nodes,  # (entries,): the node of each entry
    entries,  # (entries,)
    Y,  # (p, nodes, c, d)
    x,  # (p, n, d)
    y,  # (p, n, c), or None if nothing but of_y is wanted
    of_entries,  # (p, entries), filled; None if not wanted, as the next two
    of_x,  # (p, n, d), filled
    of_y,  # (p, n, c), filled
    n_nodes,
    n_entries,
    d: tl.constexpr,
    c: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
):
    """Write xᵀ Y y at each entry of a token, and contract the sum of entry · Y with vectors of the token."""
    token, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i, j = tl.arange(0, D)[None, :], tl.arange(0, C)[:, None]
    own = member * tl.num_programs(0) + token
    left = tl.load(x + own * d + i, mask=i < d, other=0.0)
    if y is not None:
        right = tl.load(y + own * c + j, mask=j < c, other=0.0)
    total = tl.zeros([C, D], dtype=Y.dtype.element_ty)
    begin, end = tl.load(begins + token), tl.load(begins + token + 1)
    node = tl.load(nodes + begin, mask=begin < end, other=0)
    for at in range(begin, end):
        place = Y + (member * n_nodes + node) * d * c
        node = tl.load(nodes + at + 1, mask=at + 1 < end, other=0)
        block = tl.load(place + (j * d + i), mask=(i < d) & (j < c), other=0.0)
        total += tl.load(entries + at) * block
        if of_entries is not None:
            tl.store(of_entries + member * n_entries + at, tl.sum(left * block * right))
    if of_x is not None:
        tl.store(of_x + own * d + i, tl.sum(total * right, axis=0)[None, :], mask=i < d)
    if of_y is not None:
        tl.store(of_y + own * c + j, tl.sum(total * left, axis=1)[:, None], mask=j < c)
