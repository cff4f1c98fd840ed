"""Errors of K̂ on held-out walks: a learned f against the unbiased one, on the same walks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from walkernel._checks import check_instance, one_of, refuse, whole_number
from walkernel._philox import check_seed
from walkernel.engines import Engine, resolve
from walkernel.features import Walks, second_moment_radius
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import exact_kernel
from walkernel.torch._modulation import ModulationBase, check_modulation
from walkernel.torch._walk_tensors import WalkTensors
from walkernel.walks import MAX_WALKS, SAMPLERS, IndependentWalks, Sampler, WalkSpec

ENSEMBLES = ("independent", "shared")
TRAINING, HELD_OUT, SELECTION, INITIALIZATION = range(4)
"""First words of the keys of seeds: walks for training, reporting and selection are independent."""
MARGIN = 0.85
"""Decay of a start, relative to the decay at which the variance becomes infinite."""


class Pairs(NamedTuple):
    """The walks of estimates: their number, sampler and matrix, and whether both sides share them."""

    n_walks: int
    sampler: Sampler
    ensembles: str
    matrix: str
    engine: Engine

    def sample(self, graph: Graph, *key: int, ids: NDArray[np.int64] | None = None) -> tuple[Walks, Walks]:
        """Return walks for the rows and for the columns, which the key determines, from all nodes or some."""
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        starts = np.arange(graph.n_nodes) if ids is None else ids
        spec = WalkSpec(graph, starts, self.n_walks, self.sampler, seed, matrix=self.matrix)
        left = self.engine.walks(spec)
        return left, left if self.ensembles == "shared" else self.engine.walks(spec.opposite())

    def tensors(
        self, graph: Graph, *key: int, like: Tensor, ids: NDArray[np.int64] | None = None
    ) -> tuple[WalkTensors, WalkTensors]:
        """Return such walks as tensors, on the device and of the dtype of another tensor."""
        left, right = self.sample(graph, *key, ids=ids)
        first = WalkTensors(left, device=like.device, dtype=like.dtype)
        return first, first if right is left else WalkTensors(right, device=like.device, dtype=like.dtype)

    def moment_growth(self, graphs: Sequence[Graph]) -> float:
        """Return the largest ρ(Q₀) of the walks on some graphs: the growth of second moments per step."""
        law = self.sampler.transition, self.matrix, (False, True)
        return max(second_moment_radius(graph, *law) for graph in graphs) or 1.0

    def start_decay(self, graphs: Sequence[Graph]) -> float:
        """Return a decay for which decayˡ has finite variance: decay² ρ(Q₀) is below the law's ratio."""
        return MARGIN * math.sqrt((self.sampler.ratio or 1.0) / self.moment_growth(graphs))


def check_pairs(
    graphs: Sequence[Graph],
    matrix: str,
    n_walks: int,
    sampler: Sampler | None,
    ensembles: str,
    engine: str | Engine | None,
) -> Pairs:
    """Return the walks that the arguments of a function ask for on these graphs."""
    sampler = IndependentWalks(0.5) if sampler is None else sampler
    check_instance("sampler", sampler, Sampler, SAMPLERS)
    n_walks = whole_number("n_walks", n_walks, 1, MAX_WALKS)
    one_of("ensembles", ensembles, ENSEMBLES)
    if ensembles == "shared" and not all(graph.is_symmetric(matrix) for graph in graphs):
        what = "a directed graph" if any(graph.directed for graph in graphs) else "matrix='random-walk'"
        refuse("ensembles", f"'independent' for {what}", ensembles)
    return Pairs(n_walks, sampler, ensembles, matrix, resolve(engine))


class HeldOutErrors(NamedTuple):
    """Errors of estimates with a learned and with the unbiased modulation function, on the same walks.

    They are mean squared relative errors ‖K̂ − K‖²_F / ‖K‖²_F.

    Attributes
    ----------
    learned : float
        Error with the learned modulation function.
    learned_stderr : float
        Its standard error over samples of walks.
    unbiased : float
        Error with the modulation function of the kernel itself.
    unbiased_stderr : float
        Its standard error.
    ratio : float
        The ratio learned / unbiased; below 1 learning has paid.
    ratio_stderr : float
        Its standard error.
    z : float
        The difference unbiased − learned in its standard errors.
    n_samples : int
        Number of samples of walks.
    ensembles : str
        "independent" or "shared": whether the two sides of the kernel had walks of their own.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import FreeModulation, held_out_errors
    >>> kernel, karate = wk.Diffusion(1.0), wk.load_dataset("karate").graph
    >>> f = FreeModulation(kernel.modulation(20))  # the unbiased one itself
    >>> errors = held_out_errors(karate, kernel, f, n_walks=8, sampler=wk.IndependentWalks(0.5), n_samples=4)
    >>> errors.ratio, errors.n_samples
    (1.0, 4)
    """

    learned: float
    learned_stderr: float
    unbiased: float
    unbiased_stderr: float
    ratio: float
    ratio_stderr: float
    z: float
    n_samples: int
    ensembles: str


def held_out_errors(
    graph: Graph,
    kernel: Kernel,
    modulation: ModulationBase,
    *,
    n_walks: int,
    sampler: Sampler,
    seed: int = 0,
    n_samples: int = 100,
    ensembles: str = "independent",
    engine: str | Engine | None = None,
) -> HeldOutErrors:
    """Return errors of a kernel's estimate with a learned modulation function and the unbiased one.

    Parameters
    ----------
    graph : Graph
        Any graph with at most a few thousand nodes, because K is computed exactly.
    kernel : Kernel
        K, whose own modulation function is the unbiased one.
    modulation : NeuralModulation, FreeModulation or ModulationPair
        The learned modulation, for instance of another graph.
    n_walks : int
        Walks from each node.
    sampler : Sampler
        How walks are drawn.
    seed : int
        Seed of the walks, which differ from those of a fit with the same seed.
    n_samples : int
        Number of independent estimates, at least 2. Four times as many halve the standard errors.
    ensembles : {"independent", "shared"}
        K̂ = Φ₁Φ₂ᵀ from two sets of walks, or ΦΦᵀ from one, as in the paper's tables.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see :mod:`walkernel.engines`.

    Returns
    -------
    HeldOutErrors
        The errors, their ratio and standard errors.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import FreeModulation, held_out_errors
    >>> kernel = wk.RegularizedLaplacian(d=2, sigma=0.8)
    >>> damped = FreeModulation(kernel.modulation(60) * 0.9 ** np.arange(60))
    >>> karate = wk.load_dataset("karate").graph
    >>> errors = held_out_errors(karate, kernel, damped, n_walks=16, sampler=wk.IndependentWalks(0.5))
    >>> errors.ratio < 0.9
    True
    """
    check_instance("graph", graph, Graph)
    check_instance("kernel", kernel, Kernel)
    check_modulation(modulation)
    check_instance("sampler", sampler, Sampler, SAMPLERS)
    pairs = check_pairs([graph], kernel.matrix, n_walks, sampler, ensembles, engine)
    seed = check_seed(seed)
    whole_number("n_samples", n_samples, 2)
    K = exact_kernel(graph, kernel)
    n_lengths = sampler.longest + 1
    learned = tuple(side.detach().cpu().double().numpy() for side in modulation.sides(n_lengths))
    errors = np.array(
        [
            [
                square_error(left.features(first), right.features(second), K)
                for first, second in (learned, unbiased_sides(kernel, n_lengths))
            ]
            for left, right in (pairs.sample(graph, HELD_OUT, seed, sample) for sample in range(n_samples))
        ]
    )
    return _compare(errors, ensembles)


def square_error(left: ArrayLike, right: ArrayLike, K: NDArray[np.float64]) -> float:
    """Return ‖Φ₁Φ₂ᵀ − K‖² / ‖K‖² of sparse features."""
    product = left @ right.T  # type: ignore[union-attr, operator]
    crossed = float(product.multiply(K).sum())
    return (float(product.power(2).sum()) - 2 * crossed) / float((K**2).sum()) + 1


def _compare(errors: NDArray[np.float64], ensembles: str) -> HeldOutErrors:
    """Return means, standard errors and the paired comparison of (samples, 2) errors."""
    n = len(errors)
    (learned, unbiased), spread = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(n)
    gain = errors[:, 1] - errors[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):  # without edges there is no variance
        ratio = learned / unbiased
        ratio_stderr = (errors[:, 0] - ratio * errors[:, 1]).std(ddof=1) / np.sqrt(n) / unbiased
        z = gain.mean() / (gain.std(ddof=1) / np.sqrt(n)) if gain.any() else 0.0
    return HeldOutErrors(
        float(learned), float(spread[0]), float(unbiased), float(spread[1]), float(ratio),
        float(ratio_stderr), float(z), n, ensembles,
    )  # fmt: skip


def unbiased_sides(kernel: Kernel, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the symmetric pair of a kernel, or the lazy pair if it has none."""
    if kernel.has_root():
        f = kernel.modulation(length)
        return f, f
    return kernel.coefficients(length), np.eye(1, length)[0]
