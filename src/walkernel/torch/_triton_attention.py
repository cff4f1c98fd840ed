"""Masked linear attention as Triton kernels: outer products of tokens are made and contracted in registers.

A program of ``spread_rows`` adds up φ_in x_i ⊗ y_i over the entries of one node, and reads d + c numbers for
each; one of ``contract_rows`` adds up φ_in Y_n over the entries of one token, and reads d · c. Members of a
batch have programs of their own. Every sum has a fixed order, so that two runs give the same bits.
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
    result,  # (p, pieces, d, c), filled
    n_tokens,
    d,
    c,
    D: tl.constexpr,
    C: tl.constexpr,
):
    """Add up entry · x ⊗ y over a piece of a row of the transpose."""
    piece, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i, j = tl.arange(0, D), tl.arange(0, C)
    total = tl.zeros([D, C], dtype=result.dtype.element_ty)
    for at in range(tl.load(begins + piece), tl.load(begins + piece + 1)):
        token = member * n_tokens + tl.load(rows + at)
        own = tl.load(x + token * d + i, mask=i < d, other=0.0) * tl.load(entries + at)
        total += own[:, None] * tl.load(y + token * c + j, mask=j < c, other=0.0)[None, :]
    inside = (i < d)[:, None] & (j < c)[None, :]
    place = (member * tl.num_programs(0) + piece) * d * c
    tl.store(result + place + i[:, None] * c + j[None, :], total, mask=inside)


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
    Y,  # (p, nodes, d, c)
    vector,  # (p, n, d), or (p, n, c) if BY_C
    result,  # (p, n, c), or (p, n, d) if BY_C; filled
    n_nodes,
    d,
    c,
    D: tl.constexpr,
    C: tl.constexpr,
    BY_C: tl.constexpr,
):
    """Add up entry · Y over the entries of a token, and contract the sum with a vector of the token."""
    token, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i, j = tl.arange(0, D), tl.arange(0, C)
    inside = (i < d)[:, None] & (j < c)[None, :]
    total = tl.zeros([D, C], dtype=result.dtype.element_ty)
    for at in range(tl.load(begins + token), tl.load(begins + token + 1)):
        place = (member * n_nodes + tl.load(nodes + at)) * d * c + i[:, None] * c + j[None, :]
        total += tl.load(entries + at) * tl.load(Y + place, mask=inside, other=0.0)
    own = member * tl.num_programs(0) + token
    if BY_C:
        factor = tl.load(vector + own * c + j, mask=j < c, other=0.0)
        tl.store(result + own * d + i, tl.sum(total * factor[None, :], axis=1), mask=i < d)
    else:
        factor = tl.load(vector + own * d + i, mask=i < d, other=0.0)
        tl.store(result + own * c + j, tl.sum(total * factor[:, None], axis=0), mask=j < c)


@triton.jit
def contract_at_entries(
    begins,  # (n + 1,)
    nodes,  # (entries,)
    Y,  # (p, nodes, d, c)
    x,  # (p, n, d)
    y,  # (p, n, c)
    result,  # (p, entries), filled
    n_nodes,
    n_entries,
    d,
    c,
    D: tl.constexpr,
    C: tl.constexpr,
):
    """Write xᵀ Y y at each entry of a token."""
    token, member = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i, j = tl.arange(0, D), tl.arange(0, C)
    inside = (i < d)[:, None] & (j < c)[None, :]
    own = member * tl.num_programs(0) + token
    outer = tl.load(x + own * d + i, mask=i < d, other=0.0)[:, None]
    outer = outer * tl.load(y + own * c + j, mask=j < c, other=0.0)[None, :]
    for at in range(tl.load(begins + token), tl.load(begins + token + 1)):
        place = (member * n_nodes + tl.load(nodes + at)) * d * c + i[:, None] * c + j[None, :]
        block = tl.load(Y + place, mask=inside, other=0.0)
        tl.store(result + member * n_entries + at, tl.sum(tl.sum(outer * block, axis=1), axis=0))
