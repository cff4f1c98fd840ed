"""Transforms for PyTorch Geometric: sparse diffusion, random-walk and Laplacian encodings.

Each takes a ``Data`` object and returns a shallow copy with other edges or new attributes of the nodes, as
the transforms of that package do, and none makes an N×N matrix. ``edge_index`` is read as directed entries;
repeated ones are summed, and the graph is undirected if all of them are exactly symmetric.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import GDC, BaseTransform
from torch_geometric.utils import add_self_loops

from walkernel._checks import Described, check_instance, one_of, real_number, refuse, whole_number
from walkernel._door import door
from walkernel._philox import check_seed
from walkernel.engines import Engine, resolve
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import leading_eigenvectors, return_probabilities, sparse_kernel

NORMALIZATIONS = ("sym", "col", "row", None)
NEARLY = 1 - 1e-6
"""Entries of at least this share of the largest count as the largest, where a sign is chosen."""
GRID = np.linspace(-1.0, 1.0, 513)


class KernelDiffusion(BaseTransform):
    """Replace the edges by the largest entries of a kernel: graph diffusion convolution at scale.

    Does what ``torch_geometric.transforms.GDC`` does with ``exact=True``, without its dense matrix and for
    any kernel. A node i receives messages from the nodes j of the largest K_ji, itself included. GDC's "ppr"
    is ``PageRank(1 - alpha)``, and its "heat" is ``Diffusion(sqrt(2 * t))``; its ``normalization_in`` is the
    matrix of the kernel, which is "random-walk" for "col" and, where edges have no directions, "normalized"
    for "sym"; its ``dim`` is 0. Where edges have directions, rows of the kernel follow them backwards, from
    the receiving node, and the normalized matrix has degrees of both directions.

    Weights of edges are ``edge_weight``, or else ``edge_attr`` if that is one number for each edge. The new
    weights are ``edge_attr``, as GDC has it, and also ``edge_weight`` if that was there. Other attributes
    stay as they are, also those of the edges there were.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Its Σ αₖ Mᵏ is that of the graph with self-loops.
    k : int, optional
        Number of edges to each node. One of ``k`` and ``threshold`` is given.
    threshold : float, optional
        Keep all entries of the kernel that are at least so large.
    self_loop_weight : float or None
        Weight of a self-loop that each node gets before; None for none.
    normalization : {"col", "row", "sym", None}
        How the new weights are scaled: "col" makes those to each node sum to one, "row" those from each node;
        "sym" divides by the roots of the sums to both nodes of an edge.
    method : {"auto", "polynomial", "walks"}
        How rows of the kernel are computed: exactly up to about 10⁴ nodes, then estimated by walks; see
        ``walkernel.sparse_kernel``.
    n_walks : int
        Walks from each node, where walks are used. Increase it if small weights matter.
    seed : int
        Key of the randomness of walks.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see :mod:`walkernel.engines`.

    Examples
    --------
    >>> import torch, walkernel as wk
    >>> from torch_geometric.data import Data
    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> KernelDiffusion(wk.PageRank(0.85, matrix="normalized"), k=2)(path).edge_index
    tensor([[0, 0, 1, 1, 1, 2],
            [0, 1, 0, 1, 2, 2]])
    """

    @door
    def __init__(
        self,
        kernel: Kernel,
        *,
        k: int | None = None,
        threshold: float | None = None,
        self_loop_weight: float | None = 1.0,
        normalization: str | None = "col",
        method: str = "auto",
        n_walks: int = 512,
        seed: int = 0,
        engine: str | Engine | None = None,
    ) -> None:
        check_instance(
            "kernel", kernel, Kernel, "For a function of the matrix use PowerSeries.from_function."
        )
        if (k is None) == (threshold is None):
            got = "neither" if k is None else f"k={k!r} and threshold={threshold!r}"
            refuse("k", "given, or threshold instead of it", Described(got))
        self.kernel, self.method = kernel, one_of("method", method, ("auto", "polynomial", "walks"))
        self.k = None if k is None else whole_number("k", k, 1)
        self.threshold = None if threshold is None else real_number("threshold", threshold, above=0)
        self.self_loop_weight = self_loop_weight
        if self_loop_weight is not None:
            self.self_loop_weight = real_number("self_loop_weight", self_loop_weight, above=0)
        self.normalization = one_of("normalization", normalization, NORMALIZATIONS)
        self.n_walks, self.seed = whole_number("n_walks", n_walks, 1), check_seed(seed)
        resolve(engine)
        self.engine = engine

    @door
    def forward(self, data: Data) -> Data:
        """Return the data with other edges.

        Parameters
        ----------
        data : torch_geometric.data.Data
            A graph with ``edge_index``.

        Returns
        -------
        torch_geometric.data.Data
            The same object.
        """
        _check_data(data)
        index, weights, n_nodes = data.edge_index, _weights_of(data), data.num_nodes
        if n_nodes:
            if self.self_loop_weight is not None:
                index, weights = add_self_loops(index, weights, self.self_loop_weight, n_nodes)
            index, weights = self._diffuse(_graph(index.flip(0), weights, n_nodes), weights)
            index, weights = GDC().transition_matrix(index, weights, n_nodes, self.normalization)
        data.edge_index, data.edge_attr = index, weights
        if "edge_weight" in data:
            data.edge_weight = weights
        return data

    def _diffuse(self, graph: Graph, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new edges, sorted, and the entries of the kernel as tensors like the old weights."""
        rows = sparse_kernel(
            graph, self.kernel, k=self.k, threshold=self.threshold, method=self.method, n_walks=self.n_walks,
            seed=self.seed, engine=self.engine,
        )  # fmt: skip
        columns = rows.T.tocsr()
        columns.sort_indices()
        sources = np.repeat(np.arange(graph.n_nodes), np.diff(columns.indptr))
        index = np.stack([sources, columns.indices.astype(np.int64)])
        return torch.as_tensor(index, device=like.device), like.new_tensor(columns.data)

    def __repr__(self) -> str:
        selection = f"threshold={self.threshold}" if self.k is None else f"k={self.k}"
        return f"{type(self).__name__}({self.kernel}, {selection})"


class RandomWalkEncoding(BaseTransform):
    """Add the probabilities that a random walk from a node is there again after 1, 2, … steps.

    Does what ``torch_geometric.transforms.AddRandomWalkPE`` does, in the memory of the result and without
    powers of the matrix. They are exact where that costs little, on roads, meshes, molecules and all graphs
    of up to about 10⁴ nodes, and otherwise unbiased estimates with standard errors: see
    ``walkernel.return_probabilities``. Steps go along edges in proportion to ``edge_weight``, if there is
    one.

    Parameters
    ----------
    walk_length : int
        Number of steps, and of columns. More of them tell of wider surroundings.
    attr_name : str or None
        The attribute, (n_nodes, walk_length); standard errors have its name and ``_stderr``. None adds the
        columns to ``x``, and the standard errors are ``random_walk_pe_stderr``.
    method : {"auto", "exact", "polynomial", "walks"}
        How they are computed; see ``walkernel.return_probabilities``.
    n_samples : int
        Number of random vectors, or of walks from each node, where they are estimated; at least 32.
    seed : int
        Key of the randomness.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> RandomWalkEncoding(4)(path).random_walk_pe
    tensor([[0.0000, 0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000, 1.0000],
            [0.0000, 0.5000, 0.0000, 0.5000]])
    """

    @door
    def __init__(
        self,
        walk_length: int = 16,
        *,
        attr_name: str | None = "random_walk_pe",
        method: str = "auto",
        n_samples: int = 256,
        seed: int = 0,
        engine: str | Engine | None = None,
    ) -> None:
        self.walk_length = whole_number("walk_length", walk_length, 1)
        self.attr_name = _checked_name(attr_name)
        self.method = one_of("method", method, ("auto", "exact", "polynomial", "walks"))
        self.n_samples, self.seed = whole_number("n_samples", n_samples, 32), check_seed(seed)
        resolve(engine)
        self.engine = engine

    @door
    def forward(self, data: Data) -> Data:
        """Return the data with the encoding and its standard errors.

        Parameters
        ----------
        data : torch_geometric.data.Data
            A graph with ``edge_index``.

        Returns
        -------
        torch_geometric.data.Data
            The same object.
        """
        _check_data(data)
        value = stderr = np.zeros((data.num_nodes, self.walk_length))
        if data.num_nodes:
            value, stderr = return_probabilities(
                _weighted_graph(data), self.walk_length, method=self.method, n_samples=self.n_samples,
                seed=self.seed, engine=self.engine,
            )  # fmt: skip
        _add(data, value, self.attr_name)
        _add(data, stderr, f"{self.attr_name or 'random_walk_pe'}_stderr")
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(walk_length={self.walk_length})"


class LaplacianEncoding(BaseTransform):
    """Add the eigenvectors of the smallest non-zero eigenvalues of the Laplacian, or those of a kernel.

    Does what ``torch_geometric.transforms.AddLaplacianEigenvectorPE`` does, for undirected graphs of up to
    some million nodes: by a sparse factorisation on roads and meshes, else by products with the matrix in
    the memory of ``2 * k + 1`` columns. The Laplacian is I − D^-½AD^-½. Each connected component has an
    eigenvalue of zero, whose eigenvector √d says nothing of positions, and is left out; of connected graphs
    the encodings are those of the other transform. Signs are fixed and not random: in each column, the entry
    of the largest size is positive, the first one if there are several.

    Parameters
    ----------
    k : int
        Number of columns; if the graph has fewer such eigenvectors, the last ones are zero.
    kernel : Kernel, optional
        A kernel of the normalized matrix that falls as eigenvalues of the Laplacian grow. Eigenvectors are
        multiplied by √K(λ), so that products of rows are what the leading eigenvectors have of the kernel.
    attr_name : str or None
        The attribute, (n_nodes, k); None adds the columns to ``x``.
    tolerance : float in (0, 1)
        Accuracy of the eigenvectors v: the norm of Lv − λv.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> LaplacianEncoding(1)(path).laplacian_eigenvector_pe.abs().T.round(decimals=4)
    tensor([[0.7071, 0.0000, 0.7071]])
    """

    @door
    def __init__(
        self,
        k: int,
        *,
        kernel: Kernel | None = None,
        attr_name: str | None = "laplacian_eigenvector_pe",
        tolerance: float = 1e-5,
    ) -> None:
        self.k, self.attr_name = whole_number("k", k, 1), _checked_name(attr_name)
        self.kernel, self.tolerance = kernel, real_number("tolerance", tolerance, above=0, below=1)
        if kernel is not None:
            _check_falls(kernel)

    @door
    def forward(self, data: Data) -> Data:
        """Return the data with the encoding.

        Parameters
        ----------
        data : torch_geometric.data.Data
            A graph with ``edge_index``.

        Returns
        -------
        torch_geometric.data.Data
            The same object.
        """
        _check_data(data)
        columns = np.zeros((data.num_nodes, self.k))
        if data.num_nodes:
            graph = _weighted_graph(data)
            if graph.directed:
                got = Described("edges that lead one way, or have other weights back")
                refuse(
                    "edge_index", "symmetric", got, "Use torch_geometric.transforms.ToUndirected() before."
                )
            if graph.weights is not None and graph.weights.min(initial=0.0) < 0:
                refuse("edge_weight", "without negative numbers", Described(f"{graph.weights.min():.3g}"))
            found = leading_eigenvectors(graph, self.k, self.tolerance)
            columns[:, : found.values.size] = found.vectors * _signs(found.vectors)
            if self.kernel is not None:
                strengths = np.maximum(np.real(self.kernel.spectrum(found.values)), 0.0)
                columns[:, : found.values.size] *= np.sqrt(strengths)
        _add(data, columns, self.attr_name)
        return data

    def __repr__(self) -> str:
        kernel = "" if self.kernel is None else f", kernel={self.kernel}"
        return f"{type(self).__name__}(k={self.k}{kernel})"


def _check_data(data: Any) -> None:
    """Refuse what is not a homogeneous graph with edges as an ``edge_index``."""
    check_instance("data", data, Data, "Apply it to a homogeneous graph: data.to_homogeneous() makes one.")
    if data.edge_index is None:
        refuse("data", "an object with an edge_index", data, "Apply ToSparseTensor() afterwards.")


def _checked_name(name: Any) -> str | None:
    """Check the name of an attribute."""
    if name is not None and not (isinstance(name, str) and name):
        refuse("attr_name", "a name or None", name, error=TypeError)
    return name


def _weights_of(data: Data) -> Tensor:
    """Return one number for each edge."""
    attributes = data.edge_attr
    if data.edge_weight is not None:
        return data.edge_weight if data.edge_weight.is_floating_point() else 1.0 * data.edge_weight
    if attributes is None:
        return torch.ones(data.edge_index.shape[-1], device=data.edge_index.device)
    if attributes.shape != (data.num_edges,) or not attributes.is_floating_point():
        got = Described(f"shape {tuple(attributes.shape)} and {attributes.dtype}")
        remedy = "New edges have no attributes of old ones: set data.edge_attr to None, or give edge_weight."
        refuse("edge_attr", "one real weight for each edge", got, remedy)
    return attributes


def _weighted_graph(data: Data) -> Graph:
    """Return the graph with its ``edge_weight``, if there is one."""
    weights = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    return _graph(data.edge_index, weights, data.num_nodes)


def _graph(index: Tensor, weights: Tensor, n_nodes: int) -> Graph:
    """Return the graph of some entries; repeated ones are summed."""
    numbers = weights.detach().cpu().double().numpy()
    return Graph.from_pyg(
        SimpleNamespace(edge_index=index.cpu().numpy(), edge_weight=numbers, num_nodes=n_nodes)
    )


def _add(data: Data, columns: NDArray[np.float64], name: str | None) -> None:
    """Set an attribute of the nodes, or add columns to ``x``."""
    own = torch.as_tensor(columns, dtype=torch.get_default_dtype(), device=data.edge_index.device)
    if name is not None:
        data[name] = own
    elif data.x is None:
        data.x = own
    else:
        x = data.x[:, None] if data.x.ndim == 1 else data.x
        if not x.is_floating_point():
            remedy = "Use data.x.float(), or give attr_name."
            refuse("data", "an object whose x is of floating point", Described(str(x.dtype)), remedy)
        data.x = torch.cat([x, own.to(x.device, x.dtype)], dim=-1)


def _signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ±1 for each column: the sign of its largest entry, of the first if there are several."""
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= NEARLY * sizes.max(axis=0, initial=0.0), axis=0)
    return np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _check_falls(kernel: Any) -> None:
    """Refuse what is not a kernel whose leading eigenvectors are those of the smallest eigenvalues of L."""
    check_instance("kernel", kernel, Kernel)
    if kernel.matrix != "normalized":
        refuse("kernel", "one of matrix='normalized'", kernel)
    values = np.real(kernel.spectrum(GRID))
    if values[-1] <= 0 or (np.diff(values) < -1e-12 * values[-1]).any():
        refuse("kernel", "one that falls as eigenvalues of the Laplacian grow", kernel)
