"""Multi-head attention among the nodes of a graph, each head masked by a kernel of its own."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from walkernel._checks import MATRICES, Described, check_flag, check_instance, one_of, refuse, whole_number
from walkernel._door import door
from walkernel._philox import check_seed
from walkernel.engines import Engine, resolve, sample_walks
from walkernel.features import Symmetric, check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import checked_sampler, choose_sampler
from walkernel.torch._attention import FeatureMap, checked_feature_map, masked_attention
from walkernel.torch._modulation import Modulation, NeuralModulation
from walkernel.torch._walk_tensors import WalkTensors
from walkernel.walks import MAX_WALKS, SAMPLERS, IndependentWalks, Sampler

ENSEMBLES = ("shared", "independent")
UNITS, DECAY = 8, 0.5
"""Hidden units of the modulation function that is learned if none is given, and how it decays at first."""


class MaskedAttention(nn.Module):
    """Multi-head linear attention among all nodes of a graph, with weights multiplied by a kernel.

    Takes the place of ``torch.nn.MultiheadAttention`` where tokens are the nodes of one graph: its parameters
    have the same names and shapes, ``forward`` returns the same pair, and it may be the ``self_attn`` of a
    ``torch.nn.TransformerEncoderLayer``. The time of a call is proportional to the number of nodes.

    Parameters
    ----------
    graph : Graph
        The graph, undirected; each node is a token, in the order of ``graph.labels`` or of its ids.
    dim : int
        Columns of the input and of the output.
    n_heads : int
        Number of heads, which divides ``dim``.
    kernel : Modulation or Kernel, optional
        A modulation function, of which each head learns a copy; or a kernel, which stays as it is. If not
        given, a NeuralModulation that is positive, so that sums of weights are, and close to 2⁻ˡ at first.
    n_walks : int
        Walks from each node. More of them make the mask less noisy and each call slower, in proportion.
    ensembles : {"shared", "independent"}
        "shared" takes ΦΦᵀ of one set of walks: never negative with positive f, and larger than the kernel on
        the diagonal; "independent" takes two sets, and is unbiased.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel, or for the modulation as it begins, if not given.
    seed : int
        Key of the randomness of walks. Walks are not saved with the module: they are sampled again, and are
        the same, when it is made again with the same arguments.
    matrix : {"normalized", "adjacency", "combinatorial"}, optional
        The matrix of a modulation, "normalized" if not given; kernels have their own.
    feature_map : {"elu", "exp"} or callable
        φ of queries and keys: elu(x) + 1, exp(x), or a function of tensors.
    normalize : bool
        Divide by the sums of weights; False where f or φ is negative somewhere.
    bias : bool
        Whether the projections have one.
    batch_first : bool
        Whether batches are the first dimension of three, as tokens are the first of two.
    device : device or str, optional
        Where the parameters and Φ are, "cpu" if not given; ``attention.to`` moves both.
    dtype : dtype
        float32 or float64, of the parameters and of Φ.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see ``walkernel.engines``.

    Attributes
    ----------
    modulations : ModuleList
        The modulation function of each head; empty for a kernel.
    walks : tuple of WalkTensors
        One or two sets of walks.

    See Also
    --------
    masked_attention : The function behind it, for masks of other kinds.

    Examples
    --------
    >>> import torch, walkernel as wk
    >>> from walkernel.torch import MaskedAttention
    >>> attention = MaskedAttention(wk.load_dataset("karate").graph, dim=8, n_heads=2)
    >>> output, _ = attention(torch.ones(34, 8))
    >>> output.shape
    torch.Size([34, 8])
    """

    _qkv_same_embed_dim = False  # PyTorch's encoder layers call this module, instead of a path of their own

    @door
    def __init__(
        self,
        graph: Graph,
        dim: int,
        n_heads: int,
        *,
        kernel: Modulation | Kernel | None = None,
        n_walks: int = 16,
        ensembles: str = "shared",
        sampler: Sampler | None = None,
        seed: int = 0,
        matrix: str | None = None,
        feature_map: str | FeatureMap = "elu",
        normalize: bool = True,
        bias: bool = True,
        batch_first: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        engine: str | Engine | None = None,
    ) -> None:
        super().__init__()
        check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
        if graph.directed:
            got = Described("a directed graph")
            refuse("graph", "undirected", got, "masked_attention takes a pair of features of any kind.")
        self.embed_dim = whole_number("dim", dim, 1)
        self.num_heads = whole_number("n_heads", n_heads, 1)
        if dim % n_heads:
            refuse("dim", f"a multiple of n_heads={n_heads}", dim)
        for name, flag in (("normalize", normalize), ("bias", bias), ("batch_first", batch_first)):
            check_flag(name, flag)
        self.feature_map, self.normalize, self.batch_first = feature_map, normalize, batch_first
        checked_feature_map(feature_map)
        one_of("ensembles", ensembles, ENSEMBLES)
        self.graph, self.seed, self.ensembles = graph, check_seed(seed), ensembles
        if kernel is None:
            kernel = NeuralModulation((UNITS,), activation="softplus", decay=DECAY, dtype=dtype)
        self.kernel = kernel if isinstance(kernel, Kernel) else None
        self.matrix, self.sampler = _matrix_and_sampler(graph, kernel, matrix, n_walks, sampler)
        sets = [
            sample_walks(
                graph, n_walks, sampler=self.sampler, seed=seed, stream=stream, matrix=self.matrix,
                engine=resolve(engine),
            )
            for stream in range(ENSEMBLES.index(ensembles) + 1)
        ]  # fmt: skip
        self.walks = tuple(WalkTensors(one, device=device, dtype=dtype) for one in sets)
        copies = [] if self.kernel else [deepcopy(kernel) for _ in range(n_heads)]
        self.modulations = nn.ModuleList(copies).to(self.walks[0].device, dtype)
        like = {"device": self.walks[0].device, "dtype": dtype}
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim, **like))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim, **like)) if bias else None
        self.out_proj = nn.Linear(dim, dim, bias=bias, **like)
        nn.init.xavier_uniform_(self.in_proj_weight)
        if bias:
            nn.init.zeros_(self.out_proj.bias)

    def _apply(self, fn: Any, recurse: bool = True) -> MaskedAttention:
        like = fn(torch.empty(0, dtype=self.walks[0].dtype, device=self.walks[0].device))
        walks = tuple(
            one.to(like.device, like.dtype) for one in self.walks
        )  # first: only these may be refused
        super()._apply(fn, recurse)
        self.walks = walks
        return self

    def f(self) -> Tensor:
        """Return the modulation functions at all lengths of the walks.

        Returns
        -------
        Tensor, (heads, length) or (length,)
            f of each head, differentiable; of a kernel that is fixed, the one f of all heads.
        """
        length = max(one.n_lengths for one in self.walks)
        if self.kernel is not None:
            return torch.as_tensor(
                self.kernel.modulation(length), dtype=self.walks[0].dtype, device=self.walks[0].device
            )
        return torch.stack([modulation(length) for modulation in self.modulations])

    @door
    def forward(
        self,
        query: Tensor,  # (…, nodes, dim)
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: None = None,
        need_weights: bool = False,
        attn_mask: None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """Return the attended values, and None in the place of the weights.

        Parameters
        ----------
        query, key, value : Tensor, (…, nodes, dim)
            Inputs of the three projections, with a row for each node; key is query, and value is key, if
            they are not given.
        key_padding_mask : None
            There for the signature of ``torch.nn.MultiheadAttention``: the kernel is the only mask.
        need_weights : bool
            Must be False: weights are never formed.
        attn_mask : None
            As ``key_padding_mask``.
        average_attn_weights : bool
            Has no effect.
        is_causal : bool
            Must be False: nodes have no order in time.

        Returns
        -------
        output : Tensor, (…, nodes, dim)
            The attended values.
        weights : None
            Nothing, in the place of the weights.
        """
        for name, given in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if given is not None:
                refuse(name, "None: the kernel is the only mask", Described("a tensor"))
        for name, flag in (("need_weights", need_weights), ("is_causal", is_causal)):
            if flag:
                refuse(name, "False: weights are never formed, and there is no causal mask", flag)
        key = query if key is None else key
        value = key if value is None else value
        weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        heads = []
        for name, x, weight, bias in zip(
            ("query", "key", "value"), (query, key, value), weights, biases, strict=True
        ):
            tokens = x if self.batch_first or not isinstance(x, Tensor) or x.ndim < 3 else x.transpose(0, -2)
            n, dim = self.graph.n_nodes, self.embed_dim
            if not isinstance(x, Tensor) or tokens.shape[-2:] != (n, dim):
                rule = f"(…, {n}, {dim})" if self.batch_first else f"({n}, …, {dim})"
                got = Described(f"shape {tuple(x.shape)}") if isinstance(x, Tensor) else x
                refuse(name, f"a tensor of shape {rule}", got)
            projected = nn.functional.linear(tokens, weight, bias)
            heads.append(projected.unflatten(-1, (self.num_heads, -1)).transpose(-2, -3))
        left, right = self.walks[0], self.walks[-1]
        features = left if left is right else (left, right)
        q, k, v = heads
        result = masked_attention(
            q, k, v, features, f=self.f(), feature_map=self.feature_map, normalize=self.normalize
        )
        result = self.out_proj(result.transpose(-2, -3).flatten(-2))
        return (result if self.batch_first or query.ndim == 2 else result.transpose(0, -2)), None


def _matrix_and_sampler(
    graph: Graph, kernel: Kernel | Modulation, matrix: str | None, n_walks: int, sampler: Sampler | None
) -> tuple[str, Sampler]:
    """Return the matrix that is walked on, and the sampler that was given or suits the kernel."""
    n_walks = whole_number("n_walks", n_walks, 1, MAX_WALKS)
    one_of("matrix", matrix, (*(name for name in MATRICES if name != "random-walk"), None))
    if sampler is not None:
        check_instance("sampler", sampler, Sampler, SAMPLERS)
    if isinstance(kernel, Kernel):
        if matrix not in (None, kernel.matrix):
            refuse("matrix", f"that of the kernel ({kernel.matrix!r}), or None", matrix)
        check_convergence(graph, kernel)
        checked_sampler(graph, Symmetric(kernel), sampler, n_walks)
        return kernel.matrix, sampler or choose_sampler(graph, kernel, n_walks=n_walks)
    check_instance("kernel", kernel, Modulation, "Or a kernel, such as Diffusion().")
    matrix = matrix or "normalized"
    if sampler is None:
        try:
            sampler = choose_sampler(graph, kernel.as_kernel(matrix=matrix), n_walks=n_walks)
        except ValueError:  # f does not decay
            sampler = IndependentWalks()
    return matrix, sampler
