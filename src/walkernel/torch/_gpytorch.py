"""Graph kernels for GPyTorch: inputs are node ids, and the lengthscale or f itself is trained.

Walks are sampled once, when the kernel is made; every evaluation afterwards is a re-weighting of them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel as GPyTorchKernel
from gpytorch.priors import Prior
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import MATRICES, Described, check_instance, one_of, refuse, whole_number
from walkernel._door import door
from walkernel.engines import Engine, resolve, sample_walks
from walkernel.features import Symmetric, check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import check_covariance, checked_sampler, choose_sampler, served_kernels
from walkernel.torch._modulation import Modulation
from walkernel.torch._operator import WalkCovariance
from walkernel.torch._sparse import first_derivative
from walkernel.torch._walk_tensors import WalkTensors
from walkernel.walks import MAX_WALKS, SAMPLERS, IndependentWalks, Sampler

MAX_SELECTIONS = 16
"""Maximum number of cached selections of nodes."""


class GRFKernel(GPyTorchKernel):
    r"""A GPyTorch kernel on the nodes of a graph: a covariance from walks.

    .. math:: K = \Phi_f \Phi_f^\top

    Inputs are ids of nodes, of shape (n,) or (n, 1), whole numbers of any dtype; ``graph.ids`` gives them for
    labels. All members of a batch (…, n, 1) must be of the same nodes. The amplitude is that of a
    ``gpytorch.kernels.ScaleKernel`` around this one.

    The diagonal is that of a single set of walks and biased upwards, as in ``NodeGPRegressor``: the noise is
    fitted in its presence.

    Parameters
    ----------
    graph : Graph
        The graph, undirected.
    kernel : Kernel or Modulation
        A positive semidefinite kernel, whose lengthscale, if it has one, is trained as ``raw_lengthscale``
        and begins as it is; or a modulation function, whose parameters are trained.
    n_walks : int
        Walks from each node. More walks lower the bias of the diagonal.
    sampler : Sampler, optional
        How walks are drawn. If not given, ``choose_sampler`` chooses for kernels of 1/8 to 1.5 times the
        lengthscale, as ``NodeGPRegressor`` does when it starts from the same kernel. Walks are not sampled
        again if training leaves that range: a kernel that has become too wide for them warns when it is
        evaluated in eval mode. For a modulation the sampler is chosen for its initial values, or is
        ``IndependentWalks()`` if these do not decay.
    seed : int
        Seed of the walks.
    nodes : list of nodes, optional
        Nodes that walks start from, which are the valid inputs; all nodes if not given.
    matrix : {"normalized", "adjacency", "combinatorial"}, optional
        The matrix of a modulation, "normalized" if not given; kernels have their own.
    lengthscale_prior : gpytorch.priors.Prior, optional
        Prior of the lengthscale; none if not given.
    lengthscale_constraint : gpytorch.constraints.Interval, optional
        Range of the lengthscale; ``Positive()`` if not given.
    batch_shape : torch.Size
        Shape of a batch of lengthscales.
    device : device or str, optional
        "cpu" if not given; ``kernel.to`` moves the walks too.
    dtype : dtype
        float64 or float32.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see :mod:`walkernel.engines`.

    Attributes
    ----------
    walks : WalkTensors
        The walks from all valid inputs.
    sampler : Sampler
        The sampler of the walks.

    Examples
    --------
    >>> import torch, walkernel as wk
    >>> from walkernel.torch import GRFKernel
    >>> kernel = GRFKernel(wk.load_dataset("karate").graph, wk.Diffusion(2.0), n_walks=16)
    >>> kernel(torch.tensor([0, 1, 33])).to_dense().shape
    torch.Size([3, 3])
    """

    is_stationary = False

    @door
    def __init__(
        self,
        graph: Graph,
        kernel: Kernel | Modulation,
        *,
        n_walks: int = 256,
        sampler: Sampler | None = None,
        seed: int = 0,
        nodes: Any = None,
        matrix: str | None = None,
        lengthscale_prior: Prior | None = None,
        lengthscale_constraint: Interval | None = None,
        batch_shape: torch.Size | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
        engine: str | Engine | None = None,
    ) -> None:
        where = resolve(engine)
        n_walks = whole_number("n_walks", n_walks, 1, MAX_WALKS)
        self.__dict__["has_lengthscale"] = getattr(kernel, "lengthscale", None) is not None
        if not self.has_lengthscale and (lengthscale_prior, lengthscale_constraint) != (None, None):
            got = Described(f"a prior or a constraint of {kernel}")
            refuse("lengthscale_prior", "None for a kernel without a lengthscale", got)
        super().__init__(
            batch_shape=batch_shape,
            lengthscale_prior=lengthscale_prior,
            lengthscale_constraint=lengthscale_constraint,
        )
        self.matrix = matrix = _checked_matrix(graph, kernel, matrix)
        self.graph, self.kernel, self.n_walks = graph, kernel, n_walks
        self.sampler = _sampler_for(graph, kernel, matrix, n_walks, sampler)
        walks = sample_walks(
            graph, n_walks, sampler=self.sampler, seed=seed, nodes=nodes, matrix=matrix, engine=where
        )
        self.walks = WalkTensors(walks, device=device, dtype=dtype)
        self._place = np.full(graph.n_nodes, -1)
        self._place[walks.ids] = np.arange(walks.ids.size)
        self._selections: OrderedDict[bytes, WalkTensors] = OrderedDict()
        self._last_checked: object = None
        self.to(device=self.walks.device, dtype=dtype)
        if self.has_lengthscale:
            self.lengthscale = torch.full_like(self.raw_lengthscale, kernel.lengthscale)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the walks."""
        return self.walks.dtype

    @property
    def device(self) -> torch.device:
        """The device of the walks."""
        return self.walks.device

    def _apply(self, fn: Any, recurse: bool = True) -> GRFKernel:
        like = fn(torch.empty(0, dtype=self.dtype, device=self.device))
        walks = self.walks.to(like.device, like.dtype)  # first, because only the walks may be refused
        super()._apply(fn, recurse)
        if walks is not self.walks:
            self.walks = walks
            self._selections.clear()
        return self

    def as_kernel(self) -> Kernel:
        """Return the current kernel, usable wherever kernels are.

        Returns
        -------
        Kernel
            The kernel with the lengthscale, or the modulation function, as it is now.

        Examples
        --------
        >>> import walkernel as wk
        >>> from walkernel.torch import GRFKernel
        >>> GRFKernel(wk.load_dataset("karate").graph, wk.Diffusion(2.0), n_walks=16).as_kernel()
        Diffusion(sigma=2.0)
        """
        if isinstance(self.kernel, Modulation):
            return self.kernel.as_kernel(matrix=self.matrix)
        if not self.has_lengthscale:
            return self.kernel
        if self.lengthscale.numel() > 1:
            got = Described(f"batch_shape {tuple(self.batch_shape)}")
            refuse("batch_shape", "() for a single kernel", got, "Index it first.")
        return self.kernel.with_lengthscale(self.lengthscale.item())

    def modulation(self) -> Tensor:
        """Return the current f at all lengths of the walks, differentiable.

        Returns
        -------
        Tensor, (…, n_lengths)
            The values of f.
        """
        length = self.walks.n_lengths
        if isinstance(self.kernel, Modulation):
            return self.kernel(length)
        if not self.has_lengthscale:
            return torch.as_tensor(self.kernel.modulation(length), dtype=self.dtype, device=self.device)
        return _ModulationOf.apply(  # type: ignore[no-untyped-call]
            self.lengthscale[..., 0, 0], self.graph, self.kernel, length
        )

    @door
    def forward(
        self,
        x1: Tensor,  # (…, n, 1)
        x2: Tensor,  # (…, m, 1)
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> WalkCovariance | Tensor:  # (…, n, m), or (…, n) if ``diag``
        """Return the covariance between nodes; GPyTorch calls it.

        Parameters
        ----------
        x1 : Tensor, (…, n) or (…, n, 1)
            Ids of nodes.
        x2 : Tensor, (…, m) or (…, m, 1)
            Ids of nodes.
        diag : bool
            Return the diagonal alone.
        last_dim_is_batch : bool
            Refused if set: a node is one number.
        **params : object
            No effect; GPyTorch passes them.

        Returns
        -------
        WalkCovariance or Tensor
            The covariance, (…, n, m), or its diagonal, (…, n).
        """
        if last_dim_is_batch:
            refuse("last_dim_is_batch", "False", last_dim_is_batch)
        if self.has_lengthscale and not self.training:
            self._warn_if_too_wide()
        rows, columns = self._walks_from(x1), self._walks_from(x2)
        f = self.modulation()
        batch = torch.broadcast_shapes(self.batch_shape, x1.shape[:-2], x2.shape[:-2])
        covariance = WalkCovariance(f.expand(*batch, f.shape[-1]), rows, columns)
        return covariance.diagonal(dim1=-1, dim2=-2) if diag else covariance

    def _walks_from(self, x: Tensor) -> WalkTensors:
        """Return the walks from some nodes, the same object for the same nodes."""
        ids = _node_ids(x, self.graph.n_nodes)
        key = ids.tobytes()
        if key not in self._selections:
            places = self._place[ids]
            if (places < 0).any():
                got = Described(f"node {ids[places < 0][0]}")
                refuse("x", "of nodes that walks start from", got, "Add them to nodes=.")
            self._selections[key] = self.walks.select(places)
            self._evict()
        self._selections.move_to_end(key)
        return self._selections[key]

    def _evict(self) -> None:
        """Drop the least recently used selections while there are too many or they are too large."""
        kept = self._selections
        while len(kept) > 2 and (
            len(kept) > MAX_SELECTIONS
            or sum(one.n_entries for one in kept.values()) > 2 * self.walks.n_entries
        ):
            kept.popitem(last=False)

    def _warn_if_too_wide(self) -> None:
        """Warn of a lengthscale that is too wide for the walks, once for each value."""
        values = self.lengthscale.detach().reshape(-1).tolist()
        if values != self._last_checked:
            self._last_checked = values
            for value in values:
                kernel = self.kernel.with_lengthscale(value)
                checked_sampler(self.graph, Symmetric(kernel), self.sampler, self.n_walks)


class _ModulationOf(torch.autograd.Function):
    """f of a kernel as a function of its lengthscale ℓ, with ∂f/∂ℓ = (∂f/∂ log ℓ) / ℓ."""

    @staticmethod
    def forward(ctx: Any, lengthscale: Tensor, graph: Graph, kernel: Kernel, length: int) -> Tensor:
        kernels = [kernel.with_lengthscale(value) for value in lengthscale.reshape(-1).tolist()]
        for one in kernels:
            check_convergence(graph, one)
        shape = (*lengthscale.shape, length)
        slopes = np.array([one.modulation_slope(length) for one in kernels]).reshape(shape)
        ctx.save_for_backward(lengthscale.new_tensor(slopes) / lengthscale[..., None])
        return lengthscale.new_tensor(np.array([one.modulation(length) for one in kernels]).reshape(shape))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return (grad * slopes).sum(dim=-1), None, None, None


def _checked_matrix(graph: Graph, kernel: Kernel | Modulation, matrix: str | None) -> str:
    """Return the matrix that is walked on."""
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    if matrix is not None:
        one_of("matrix", matrix, MATRICES)
    if isinstance(kernel, Modulation):
        return matrix or "normalized"
    check_instance("kernel", kernel, Kernel, "It may also be a modulation, such as FreeModulation(10).")
    if matrix not in (None, kernel.matrix):
        refuse("matrix", f"that of the kernel ({kernel.matrix!r}), or None", matrix)
    return kernel.matrix


def _sampler_for(
    graph: Graph, kernel: Kernel | Modulation, matrix: str, n_walks: int, sampler: Sampler | None
) -> Sampler:
    """Check that the kernel is a covariance, and return the sampler to use."""
    if sampler is not None:
        check_instance("sampler", sampler, Sampler, SAMPLERS)
    if isinstance(kernel, Modulation):
        try:
            initial = kernel.as_kernel(matrix=matrix)
        except ValueError:  # f does not decay
            initial = kernel.as_kernel(length=1, matrix=matrix)
            sampler = sampler or IndependentWalks()
        check_covariance(graph, initial)
        return sampler or choose_sampler(graph, initial, n_walks=n_walks)
    check_convergence(graph, kernel)
    check_covariance(graph, kernel)
    checked_sampler(graph, Symmetric(kernel), sampler, n_walks)
    return sampler or choose_sampler(graph, *served_kernels(graph, kernel, ("lengthscale",)), n_walks=n_walks)


def _node_ids(x: Tensor, n_nodes: int) -> NDArray[np.int64]:
    """Return the node ids of inputs (…, n, 1), which must be the same in all members of a batch, (n,)."""
    remedy = "Node ids are the samples; they are not numbers to compute with."
    if x.ndim < 2 or x.shape[-1] != 1 or x.numel() == 0:
        refuse("x", "nodes of shape (n,) or (n, 1)", Described(f"shape {tuple(x.shape)}"), remedy)
    if x.is_floating_point() and n_nodes > 2 / torch.finfo(x.dtype).eps:
        refuse("x", f"of a dtype that holds {n_nodes} ids, as int64 does", Described(str(x.dtype)))
    values = x.detach().cpu().double().numpy().reshape(-1, x.shape[-2])
    bad = ~((values >= 0) & (values < n_nodes) & (values == np.floor(values)))
    if bad.any():
        got = Described(f"{values[bad][0]:g}")
        refuse("x", f"ids of nodes, whole numbers from 0 to {n_nodes - 1}", got, remedy)
    if (values != values[0]).any():
        rule = "of the same nodes in all members of a batch"
        refuse("x", rule, Described(f"different nodes, of shape {tuple(x.shape)}"))
    return values[0].astype(np.int64)
