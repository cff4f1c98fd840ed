"""Linear attention whose weights are multiplied by a kernel of the graph: no N×N matrix is formed.

    out_i = Σ_j M_ij (φ(q_i)·φ(k_j)) v_j  /  Σ_j M_ij (φ(q_i)·φ(k_j)),        M = Φ₁Φ₂ᵀ

With w_j = (v_j, 1), both sums are φ(q_i)ᵀ (Φ₁ Φ₂ᵀ (φ(k) ⊗ w))_i: two sparse products of d (d_v + 1)
columns. They are made a few columns at a time, forwards and again backwards, so that only tensors of the
sizes of q, k and v are kept. The derivatives are products of the same kinds:

    Y = Φ₂ᵀ (φ(k) ⊗ w)       S = Φ₁ Y       out_i = φ(q_i)ᵀ S_i       ∂/∂φ(q)_i = S_i g_i
    U = Φ₁ᵀ (φ(q) ⊗ g)       T = Φ₂ U       ∂/∂w_j = φ(k_j)ᵀ T_j      ∂/∂φ(k)_j = T_j w_j
    ∂/∂(Φ₁)_in = φ(q_i)ᵀ Y_n g_i            ∂/∂(Φ₂)_jn = φ(k_j)ᵀ U_n w_j

Most of the time goes into reading Y_n and U_n at each entry of Φ. All derivatives of one side are computed in
one pass over its entries: Y is read once forwards and once backwards, and U once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from walkernel._checks import Described, check_flag, one_of, refuse
from walkernel._door import door
from walkernel.torch._sparse import LOOP_DEVICE, Structure, first_derivative
from walkernel.torch._walk_tensors import WalkTensors

FeatureMap = Callable[[Tensor], Tensor]
FEATURE_MAPS: dict[str, FeatureMap] = {
    "elu": lambda x: torch.where(x > 0, x + 1, x.clamp(max=0).exp()),
    "exp": torch.exp,
}
"""Positive functions of queries and keys, by name; elu(x) + 1 is exp(x) below 0, which no sum rounds to 0."""
TILE_ENTRIES, DEVICE_TILE_ENTRIES = 2**23, 2**29
"""Numbers of an intermediate result that are kept at once, on a CPU and on a device."""
PROGRAM_ENTRIES = 2**11
"""Entries of a matrix d × c, padded to powers of two, that a program on a device holds."""
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
Features: TypeAlias = Tensor | WalkTensors


@door
def masked_attention(
    q: Tensor,  # (…, heads, n, d)
    k: Tensor,  # (…, heads, m, d)
    v: Tensor,  # (…, heads, m, d_v)
    features: Features | tuple[Features, Features],
    *,
    f: Tensor | tuple[Tensor, Tensor] | None = None,
    feature_map: str | FeatureMap = "elu",
    normalize: bool = True,
) -> Tensor:  # (…, heads, n, d_v)
    r"""Return linear attention with weights that are multiplied by M = Φ₁Φ₂ᵀ.

    .. math:: \mathrm{out}_i = \frac{\sum_j M_{ij}\, \varphi(q_i)\cdot\varphi(k_j)\, v_j}
                                    {\sum_j M_{ij}\, \varphi(q_i)\cdot\varphi(k_j)}

    Time is proportional to the entries of Φ times d · d_v; memory is that of q, k, v and Φ. Everything is
    differentiable with respect to q, k, v, the values of CSR tensors, and f. There is no causal mask: the
    order of tokens is that of the nodes and says nothing about time.

    Parameters
    ----------
    q, k, v : Tensor
        Queries (…, n, d), keys (…, m, d) and values (…, m, d_v), in float32, float64, bfloat16 or float16.
        All but the last two dimensions are batches; the last of these is heads where f differs by head.
        Sums are made in float32, or in float64 if q is.
    features : CSR tensor, WalkTensors or pair of these
        Φ₁ = Φ₂ = Φ, with a row for each token, or the pair (Φ₁, Φ₂): a row of Φ₁ for each query, one of Φ₂
        for each key. One set of walks makes M symmetric and non-negative definite; two independent sets make
        it unbiased.
    f : Tensor, (length,) or (heads, length), or a pair of these
        The modulation function of the features of ``WalkTensors``, one for all heads or one for each; a pair
        for Φ₁ and Φ₂. Must not be given for CSR tensors.
    feature_map : {"elu", "exp"} or callable
        φ: elu(x) + 1, exp(x), or a function of tensors that may change the last dimension.
    normalize : bool
        Divide by the sum of weights. Where M or φ has negative values, the sum may be close to zero, which is
        refused; ``normalize=False`` returns the numerator alone.

    Returns
    -------
    Tensor, (…, n, d_v)
        In the dtype of v.

    See Also
    --------
    MaskedAttention : A module with walks and modulation functions of its own.

    Examples
    --------
    >>> import torch, walkernel as wk
    >>> from walkernel.torch import masked_attention
    >>> graph = wk.load_dataset("karate").graph
    >>> features = torch.tensor(wk.sample_features(graph, wk.Diffusion(), 64).toarray()).to_sparse_csr()
    >>> q, k, v = torch.ones(3, 2, 34, 4, dtype=torch.float64)
    >>> masked_attention(q, k, v, features).shape
    torch.Size([2, 34, 4])
    """
    check_flag("normalize", normalize)
    function = checked_feature_map(feature_map)
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_tokens(name, x, q)
    batch = _batch_of(q, k, v)
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    with torch.autocast(q.device.type, enabled=False):
        queries, keys, values = function(q.to(dtype)), function(k.to(dtype)), v.to(dtype)
        if queries.shape[-1] != keys.shape[-1]:
            got = Described(f"shapes {tuple(q.shape)} and {tuple(k.shape)}")
            refuse("k", "of as many columns as q", got)
        left, right = _sides("features", features)
        f_left, f_right = _sides("f", f)
        rows, a = _entries(left, f_left, "q", queries, batch)
        columns, b = (
            (rows, a) if right is left and f_right is f_left else _entries(right, f_right, "k", keys, batch)
        )
        if rows.shape[1] != columns.shape[1]:
            got = Described(f"{rows.shape[1]} and {columns.shape[1]} columns")
            refuse("features", "a pair with one column for each node of the same graph", got)
        if normalize:
            values = torch.cat([values, values.new_ones(*v.shape[:-1], 1)], dim=-1)
        queries, keys, values = (
            x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (queries, keys, values)
        )
        sums = _MaskedProduct.apply(a, b, queries, keys, values, rows, columns)
        if normalize:
            with torch.no_grad():
                _check_totals(sums[..., -1:], a, b, queries, keys, values, rows, columns)
            sums = sums[..., :-1] / sums[..., -1:]
    result = sums.reshape(*batch, *sums.shape[-2:]).to(v.dtype)
    if not bool(torch.isfinite(result).all()):
        got = Described("larger results" if bool(torch.isfinite(sums).all()) else "results that overflow")
        rule = f"small enough for sums in {dtype} and results in {v.dtype}"
        refuse("q, k and v", rule, got, "Scale q and k down.")
    return result


class _MaskedProduct(torch.autograd.Function):
    """q · (Φ₁ Φ₂ᵀ (k ⊗ w)), (p, n, c), for p members of a batch."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,  # (1 or heads, entries of Φ₁)
        b: Tensor,  # (1 or heads, entries of Φ₂)
        q: Tensor,  # (p, n, d)
        k: Tensor,  # (p, m, d)
        w: Tensor,  # (p, m, c)
        left: Structure,
        right: Structure,
    ) -> Tensor:
        saved = a, b, q, k, w
        ctx.save_for_backward(*saved)
        ctx.structures = left, right
        result = q.new_zeros(*q.shape[:2], w.shape[2])
        for tile in _tiles(left.shape[1], *saved):
            a, b, q, k, w = tile.of(saved)
            contract(left, a, spread(right, b, k, w), q, None, of_y=result[tile.w])
        return result

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, (left, right) = ctx.saved_tensors, ctx.structures
        gradients = [
            torch.zeros_like(x, memory_format=torch.contiguous_format) if needed else None
            for x, needed in zip(saved, ctx.needs_input_grad, strict=False)
        ]
        with torch.autocast(grad.device.type, enabled=False):
            for tile in _tiles(left.shape[1], *saved):
                a, b, q, k, w = tile.of(saved)
                of_a, of_b, of_q, of_k, of_w = tile.of(gradients)
                g = grad[tile.w]
                if of_a is not None or of_q is not None:
                    contract(left, a, spread(right, b, k, w), q, g, of_entries=of_a, of_x=of_q)
                if of_b is not None or of_k is not None or of_w is not None:
                    contract(right, b, spread(left, a, q, g), k, w, of_entries=of_b, of_x=of_k, of_y=of_w)
        return *gradients, None, None


class _Tile(NamedTuple):
    """Where one Φ₁ and Φ₂, some members of the batch that have them, and some columns of q and k are."""

    a: int
    b: int
    q: tuple[slice, slice, slice]
    k: tuple[slice, slice, slice]
    w: slice

    def of(self, tensors: Sequence[Tensor | None]) -> list[Any]:
        """Return the parts of a, b, q, k and w, or of their gradients."""
        return [None if x is None else x[place] for x, place in zip(tensors, self, strict=True)]


def _tiles(n_nodes: int, a: Tensor, b: Tensor, q: Tensor, k: Tensor, w: Tensor) -> Iterator[_Tile]:
    """Yield parts whose intermediate results are small enough; members of a tile have the same Φ."""
    n_heads = max(len(a), len(b))
    n_members, d, c = q.shape[0] // n_heads, q.shape[2], w.shape[2]
    size = max(q.shape[1], k.shape[1], n_nodes) * c
    on_host = q.device.type == LOOP_DEVICE
    at_once = max(1, (TILE_ENTRIES if on_host else DEVICE_TILE_ENTRIES) // size)
    width = min(d, at_once if on_host else max(1, PROGRAM_ENTRIES >> (c - 1).bit_length()))
    height = max(1, at_once // width)
    for head in range(n_heads):
        for first in range(0, n_members, height):
            last = min(first + height, n_members)
            members = slice(first * n_heads + head, (last - 1) * n_heads + head + 1, n_heads)
            for column in range(0, d, width):
                tokens = members, slice(None), slice(column, min(column + width, d))
                yield _Tile(head % len(a), head % len(b), tokens, tokens, members)


def spread(
    structure: Structure,
    entries: Tensor,  # (nnz,)
    x: Tensor,  # (p, n, d)
    y: Tensor,  # (p, n, c)
) -> Tensor:
    """Return Φᵀ (x ⊗ y), to be handed to ``contract``."""
    if x.device.type != LOOP_DEVICE:
        from walkernel.torch._device_attention import spread as on_device

        return on_device(structure, entries, x, y)
    return structure.transposed_product(entries, _outer(x, y))


def contract(
    structure: Structure,
    entries: Tensor,  # (nnz,)
    Y: Tensor,
    x: Tensor,  # (p, n, d)
    y: Any,  # (p, n, c), or None if nothing but of_y is given
    *,
    of_entries: Tensor | None = None,  # (nnz,)
    of_x: Tensor | None = None,  # (p, n, d)
    of_y: Tensor | None = None,  # (p, n, c)
) -> None:
    """Add the derivatives of Σ_i x_iᵀ S_i y_i, S = Φ Y, to the tensors that are given."""
    if x.device.type != LOOP_DEVICE:
        from walkernel.torch._device_attention import contract as on_device

        return on_device(structure, entries, Y, x, y, of_entries, of_x, of_y)
    if of_entries is not None:
        of_entries += structure.entry_products(_outer(x, y), Y)
    if of_x is not None or of_y is not None:
        S = structure.product(entries, Y).unflatten(1, (*x.shape[::2], -1))
        if of_x is not None:
            of_x += torch.einsum("npdc,pnc->pnd", S, y)
        if of_y is not None:
            of_y += torch.einsum("npdc,pnd->pnc", S, x)


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """Return x ⊗ y for each token, (n, p d c)."""
    return torch.einsum("pnd,pnc->npdc", x, y).flatten(1)


def checked_feature_map(feature_map: object) -> FeatureMap:
    """Return φ, given by name or as a function."""
    if callable(feature_map):
        return feature_map
    return FEATURE_MAPS[one_of("feature_map", feature_map, FEATURE_MAPS)]


def _check_tokens(name: str, x: object, like: Tensor) -> None:
    """Refuse anything but a tensor (…, tokens, columns) of floating point on the device of the queries."""
    if not isinstance(x, Tensor) or x.layout != torch.strided:
        refuse(name, "a dense tensor of shape (…, tokens, columns)", x, error=TypeError)
    if x.ndim < 2 or not x.numel():
        refuse(name, "of shape (…, tokens, columns), not empty", Described(f"shape {tuple(x.shape)}"))
    if x.dtype not in FLOATS:
        refuse(name, "of a floating-point dtype", Described(str(x.dtype)), error=TypeError)
    if x.device != like.device or (x.dtype == torch.float64) != (like.dtype == torch.float64):
        got = Described(f"{x.dtype} on {x.device} and q of {like.dtype} on {like.device}")
        refuse(name, "on the device of q, and in double precision if q is", got, error=TypeError)


def _batch_of(q: Tensor, k: Tensor, v: Tensor) -> torch.Size:
    """Return the common batch of queries, keys and values, or refuse their shapes."""
    shapes = Described(", ".join(str(tuple(x.shape)) for x in (q, k, v)))
    if k.shape[-2] != v.shape[-2]:
        refuse("v", "with a row for each key", shapes)
    try:
        return torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except RuntimeError:
        refuse("q, k and v", "of shapes (…, tokens, columns) whose batches fit together", shapes)


def _sides(name: str, given: Any) -> tuple[Any, Any]:
    """Return what a pair has for Φ₁ and Φ₂, or one thing twice."""
    if not isinstance(given, (tuple, list)):
        return given, given
    if len(given) != 2:
        refuse(name, "one for both sides, or a pair", Described(f"{len(given)} of them"))
    return given[0], given[1]


def _entries(
    features: object, f: Tensor | None, name: str, x: Tensor, batch: torch.Size
) -> tuple[Structure, Tensor]:
    """Return where the entries of one side are, and the entries for all heads or each, (1 or heads, nnz)."""
    if isinstance(features, WalkTensors):
        if f is None:
            refuse(
                "f",
                "given for WalkTensors",
                f,
                "Give f(0), f(1), … as a tensor, such as a modulation of a length.",
            )
        structure, entries = features.structure, _entries_of(features, f)
    elif isinstance(features, Tensor) and features.layout == torch.sparse_csr and features.ndim == 2:
        if f is not None:
            refuse("f", "None for CSR tensors", Described("a tensor"), "Give WalkTensors as features.")
        structure = Structure(features.crow_indices(), features.col_indices(), tuple(features.shape))
        entries = features.values()[None]
    else:
        remedy = "Take WalkTensors(walks), or sample_features(...) as a tensor with to_sparse_csr()."
        refuse("features", "a CSR tensor, WalkTensors, or a pair of these", features, remedy, TypeError)
    if entries.device != x.device:
        got = Described(f"features on {entries.device} and tokens on {x.device}")
        refuse("features", "on the device of q, k and v", got, error=TypeError)
    if structure.shape[0] != x.shape[-2]:
        got = Described(f"{structure.shape[0]} rows and {x.shape[-2]} tokens")
        refuse("features", f"of as many rows as {name} has tokens", got)
    if len(entries) > 1 and (not batch or batch[-1] != len(entries)):
        got = Described(f"{len(entries)} and a batch of shape {tuple(batch)}")
        refuse("f", "of one row, or one for each head, the last dimension of the batch", got)
    return structure, entries.to(x.dtype).contiguous()


def _entries_of(walks: WalkTensors, f: Tensor) -> Tensor:  # (1 or heads, nnz)
    return (
        walks.entries_of_each(f)
        if isinstance(f, Tensor) and f.ndim == 2 and f.numel()
        else walks.entries(f)[None]
    )


def _check_totals(
    totals: Tensor, a: Tensor, b: Tensor, q: Tensor, k: Tensor, w: Tensor, left: Structure, right: Structure
) -> None:
    """Refuse sums of weights that are zero, or that have lost half of their digits by cancellation."""
    smallest = torch.zeros_like(totals)
    if any(bool((x < 0).any()) for x in (a, b, q, k)):
        sizes = _MaskedProduct.apply(a.abs(), b.abs(), q.abs(), k.abs(), w[..., -1:], left, right)
        smallest = torch.finfo(totals.dtype).eps ** 0.5 * sizes
    bad = ~(totals.abs() > smallest) | totals.isinf()
    if bool(bad.any()):
        member, token, _ = bad.nonzero()[0].tolist()
        got = Described(f"{float(totals[member, token]):.3g} at token {token}")
        remedy = "Use normalize=False, or f and a feature_map that are positive and in range."
        refuse("normalize", "False where a sum of weights is close to zero or overflows", got, remedy)
