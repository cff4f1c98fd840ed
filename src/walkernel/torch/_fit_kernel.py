"""Better than unbiased (Sec. 3.4): f that makes the expected error of K̂ small, not its bias zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, check_instance, one_of, progress_callback, refuse, whole_number
from walkernel._door import door
from walkernel._philox import check_seed
from walkernel.engines import Engine
from walkernel.features import check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import exact_kernel
from walkernel.torch._bounds import learned_bounds
from walkernel.torch._expected import ExpectedError
from walkernel.torch._held_out import (
    INITIALIZATION,
    SELECTION,
    TRAINING,
    HeldOutErrors,
    Pairs,
    check_pairs,
    held_out_errors,
    unbiased_sides,
)
from walkernel.torch._modulation import ModulationBase, NeuralModulation
from walkernel.torch._training import Fit, Schedule, Step, Trained, train
from walkernel.torch._walk_tensors import WalkTensors
from walkernel.walks import Sampler

SOURCES = ("fresh", "bank", "expected")
N_EVALUATIONS = 10
"""Number of evaluations while a start is trained."""
NEGLIGIBLE = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelFit(Fit):
    """A modulation function that was learned for a kernel; ``fit_to_kernel`` returns it.

    Attributes
    ----------
    modulation : NeuralModulation, FreeModulation or ModulationPair
        The best that was found.
    kernel : Kernel
        The kernel that it estimates without bias: Σ (f * f)_k Mᵏ, which differs from the target kernel.
    history : ndarray, (epochs,)
        Training loss of the start that won.
    chosen_by : ndarray, (starts,)
        Error of each start by which the best one was chosen, on separate walks or in closed form.
    errors : HeldOutErrors
        Learned against unbiased on the first graph, on walks that neither trained nor chose.
    bounds : Bounds
        Theorem 2.3 and its corollary for the learned kernel on the first graph.
    interrupted : bool
        Whether Ctrl-C ended the training early.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import Schedule, fit_to_kernel
    >>> karate, short = wk.load_dataset("karate").graph, Schedule(n_epochs=10)
    >>> fit = fit_to_kernel(karate, wk.Diffusion(1.0), 16, walks="expected", n_held_out=8, schedule=short)
    >>> fit.history.shape, fit.modulation.modulation(3).shape
    ((10,), (3,))
    """

    chosen_by: NDArray[np.float64]
    errors: HeldOutErrors

    @property
    def ratio(self) -> float:
        """Learned over unbiased squared error."""
        return self.errors.ratio

    @property
    def ratio_stderr(self) -> float:
        """Standard error of the ratio, over held-out walks."""
        return self.errors.ratio_stderr

    def report(self) -> str:
        """Return a description of what was learned.

        Returns
        -------
        str
            Sentences with the numbers.
        """
        e = self.errors
        return self._describe(
            f" from the best of {len(self.chosen_by)} starts",
            f"Squared relative error on {e.n_samples} held-out samples ({e.ensembles} walks): learned "
            f"{e.learned:.5f} ± {e.learned_stderr:.5f}, unbiased {e.unbiased:.5f} ± {e.unbiased_stderr:.5f}, "
            f"ratio {e.ratio:.3f} ± {e.ratio_stderr:.3f} (paired z = {e.z:.1f}).",
        )


@door
def fit_to_kernel(
    graphs: Graph | Sequence[Graph],
    kernel: Kernel,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    modulation: ModulationBase | Sequence[ModulationBase] | None = None,
    walks: str = "fresh",
    ensembles: str = "independent",
    n_samples: int = 16,
    n_held_out: int = 100,
    schedule: Schedule | None = None,
    seed: int = 0,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> KernelFit:
    r"""Learn the modulation function that minimises the expected squared error of a kernel's estimate.

    .. math:: \min_f \; \mathbb{E} \, \frac{\| \Phi_f \Psi_f^\top - K \|_F^2}{\| K \|_F^2}
        \quad \text{for a number of walks}

    Long walks are rare and their deposits have a large variance: an f that weights them less is biased, but
    has a smaller error. This holds for the same number of walks of the same sampler. With other walks, such
    as those that ``estimate_kernel`` and the estimators choose by default, the bias remains and the gain may
    not: pass them this ``sampler``, or learn for theirs, ``choose_sampler(graph, kernel)``.

    Parameters
    ----------
    graphs : Graph or list of Graph
        Graphs to learn on, with at most a few thousand nodes, because K is computed exactly.
    kernel : Kernel
        The kernel to estimate.
    n_walks : int
        Walks from each node, of each side. With more walks, the learned f is closer to the unbiased one.
    sampler : Sampler, optional
        How walks are drawn; ``IndependentWalks(p_halt=0.5)``, the paper's for this task, if not given.
    modulation : NeuralModulation, FreeModulation, ModulationPair or list of them, optional
        Where to start, and with it the family of f; they are not changed. If not given, the paper's network
        from a nearly flat start and from two random ones, with amplitude and decay of the kernel's own f,
        or a smaller decay where the walks would have infinite variance with that.
    walks : {"fresh", "bank", "expected"}
        Learn from new walks in every epoch, from ``n_samples`` samples in turn, or from the closed form of
        the expected error, which has no noise but needs independent walks and graphs of some hundred nodes.
    ensembles : {"independent", "shared"}
        K̂ = Φ₁Φ₂ᵀ from two sets of walks, or ΦΦᵀ from one, as in the paper.
    n_samples : int
        Number of samples in a bank, and of samples by which starts are compared.
    n_held_out : int
        Samples for the errors that are reported.
    schedule : Schedule, optional
        Number of epochs and rates; ``Schedule.paper()`` is that of the paper.
    seed : int
        Seed of the walks and of random starts. Change it to see how much a result depends on them.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see :mod:`walkernel.engines`.
    progress : callable, optional
        Called with (epochs done, epochs in all).

    Returns
    -------
    KernelFit
        The modulation function, its kernel, and its errors on walks that were not used.

    See Also
    --------
    held_out_errors : Errors of the learned function on another graph.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import Schedule, fit_to_kernel
    >>> karate = wk.load_dataset("karate").graph
    >>> target = wk.RegularizedLaplacian(d=2, sigma=0.8)
    >>> fit = fit_to_kernel(karate, target, 16, walks="expected", schedule=Schedule(n_epochs=300))
    >>> fit.ratio < 0.87
    True
    """
    graphs = _graphs(graphs, kernel)
    one_of("walks", walks, SOURCES)
    pairs = check_pairs(graphs, kernel.matrix, n_walks, sampler, ensembles, engine)
    if ensembles == "shared" and walks == "expected":
        rule = "'independent' for the closed form, which has no fourth moments"
        refuse("ensembles", rule, ensembles, "Use walks='fresh'.")
    seed = check_seed(seed)
    n_held_out = whole_number("n_held_out", n_held_out, 2)
    schedule = Schedule() if schedule is None else schedule
    check_instance("schedule", schedule, Schedule)
    starts = _starts(modulation, _default_scales(graphs, kernel, pairs), seed)
    n_samples = whole_number("n_samples", n_samples, 1)
    tell = progress_callback(progress) or (lambda done, total: None)
    total = len(starts) * schedule.n_epochs
    exact = [torch.as_tensor(exact_kernel(graph, kernel)) for graph in graphs]
    trained: list[Trained] = []
    for start in starts:
        task = _KernelTask(start, graphs, kernel, exact, pairs, walks, n_samples, seed)

        def report(epoch: int, before: int = len(trained) * schedule.n_epochs) -> None:
            tell(before + epoch, total)

        found = train(
            start, schedule, steps=task.steps, evaluate=task.evaluate,
            evaluate_every=max(1, schedule.n_epochs // N_EVALUATIONS), report=report,
            largest_tensor=max(graph.n_nodes for graph in graphs) ** 2,
        )  # fmt: skip
        trained.append(found)
        if found.interrupted:
            break
    values = np.array([one.best for one in trained])
    winner = int(np.nanargmin(values))
    best = starts[winner]
    errors = held_out_errors(
        graphs[0], kernel, best, n_walks=n_walks, sampler=pairs.sampler, seed=seed, n_samples=n_held_out,
        ensembles=ensembles, engine=pairs.engine,
    )  # fmt: skip
    length = best.n_terms(pairs.sampler.longest + 1)
    return KernelFit(
        modulation=best,
        kernel=best.as_kernel(length=length, matrix=kernel.matrix),
        history=trained[winner].history,
        bounds=learned_bounds(best, graphs[0], graphs[0].n_nodes, matrix=kernel.matrix, length=length),
        interrupted=trained[-1].interrupted,
        chosen_by=values,
        errors=errors,
    )


@dataclass(eq=False)
class _KernelTask:
    """The loss of Sec. 3.4, ‖K̂ − K‖² / ‖K‖² summed over graphs, for one modulation."""

    modulation: ModulationBase
    graphs: list[Graph]
    kernel: Kernel
    exact: list[Tensor]
    pairs: Pairs
    walks: str
    n_samples: int
    seed: int

    def __post_init__(self) -> None:
        self.like = next(self.modulation.parameters())
        options: dict[str, Any] = {"device": self.like.device, "dtype": self.like.dtype}
        if self.walks == "expected":
            n = _closed_form_length(self.graphs, self.kernel, self.pairs, self.modulation)
            self.expected = [
                ExpectedError(graph, self.kernel, self.pairs.n_walks, self.pairs.sampler, n, **options)
                for graph in self.graphs
            ]
            return
        self.targets = [exact.to(**options) for exact in self.exact]
        self.chosen_by = [self._sample(SELECTION, k) for k in range(self.n_samples)]
        if self.walks == "bank":
            self.bank = [self._sample(TRAINING, k) for k in range(self.n_samples)]

    def _sample(self, purpose: int, number: int) -> list[tuple[WalkTensors, WalkTensors]]:
        return [
            self.pairs.tensors(graph, purpose, self.seed, number, place, like=self.like)
            for place, graph in enumerate(self.graphs)
        ]

    def steps(self, epoch: int) -> Iterator[Step]:
        """Yield the single step of an epoch."""
        if self.walks == "expected":
            yield Step(self._expected_error, key=0)
        elif self.walks == "bank":
            number = epoch % len(self.bank)
            yield Step(partial(self._error, self.bank[number]), number)
        else:
            yield Step(partial(self._error, self._sample(TRAINING, epoch)), None)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the error on walks that are not used for training, or the error in closed form."""
        if self.walks == "expected":
            return float(self._expected_error())
        return float(np.mean([float(self._error(sample)) for sample in self.chosen_by]))

    def _expected_error(self) -> Tensor:
        return torch.stack([error(self.modulation) for error in self.expected]).mean()

    def _error(self, sample: list[tuple[WalkTensors, WalkTensors]]) -> Tensor:
        first, second = self.modulation.sides(max(side.n_lengths for pair in sample for side in pair))
        errors = [
            (left.dense(first) @ right.dense(second).mT - target).square().sum() / target.square().sum()
            for (left, right), target in zip(sample, self.targets, strict=True)
        ]
        return torch.stack(errors).mean()


def _closed_form_length(graphs: list[Graph], kernel: Kernel, pairs: Pairs, modulation: ModulationBase) -> int:
    """Return the number of terms that contribute to the variance with the kernel's own f and with the start.

    Omitted terms of the start would be part of every estimate, but would never be trained.
    """
    survival, needed = pairs.sampler.survival(), 2
    n = survival.size
    growth = np.arange(n) * math.log(pairs.moment_growth(graphs))
    for f in (
        unbiased_sides(kernel, n)[0],
        *(side.detach().cpu().double().numpy() for side in modulation.sides(n)),
    ):
        with np.errstate(divide="ignore"):  # logarithms, because powers of large entries overflow
            sizes = 2 * np.log(np.abs(f)) + growth - np.log(survival)
        if not np.isfinite(f).all():
            return n
        if f.any():
            needed = max(needed, int(np.flatnonzero(sizes > sizes.max() + math.log(NEGLIGIBLE))[-1]) + 2)
    return min(needed, n)


def _graphs(graphs: Graph | Sequence[Graph], kernel: Kernel) -> list[Graph]:
    """Return graphs as a list, after checking that the kernel converges on each."""
    check_instance("kernel", kernel, Kernel)
    found = [graphs] if isinstance(graphs, Graph) else _as_list("graphs", "a Graph", graphs)
    for graph in found:
        check_instance("graphs", graph, Graph)
        check_convergence(graph, kernel)
    return found


def _starts(
    modulation: ModulationBase | Sequence[ModulationBase] | None, usual: tuple[float, float], seed: int
) -> list[ModulationBase]:
    """Return copies of the given starts, or networks of the usual amplitude and decay."""
    if modulation is None:
        amplitude, decay = usual
        seeds = np.random.SeedSequence((INITIALIZATION, seed)).generate_state(3).tolist()
        return [
            NeuralModulation(amplitude=amplitude, decay=decay, init=init, seed=own)
            for init, own in zip(("flat", "random", "random"), seeds, strict=True)
        ]
    one_only = isinstance(modulation, ModulationBase)
    given: list[Any] = [modulation] if one_only else _as_list("modulation", "a modulation", modulation)
    for one in given:
        if not isinstance(one, ModulationBase):
            got = Described(type(one).__name__)
            refuse("modulation", "a modulation or a list of them", got, error=TypeError)
    return [deepcopy(one) for one in given]


def _as_list(parameter: str, kind: str, given: Any) -> list[Any]:
    """Return a non-empty sequence as a list."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        refuse(parameter, f"{kind} or a non-empty list of them", given, error=TypeError)
    return list(given)


def _default_scales(graphs: list[Graph], kernel: Kernel, pairs: Pairs) -> tuple[float, float]:
    """Return amplitude and decay that bring a flat network near the kernel's own f, at finite variance."""
    f = np.abs(unbiased_sides(kernel, 2)[0])
    radius = kernel.power_radius(0.5) if kernel.has_root() else kernel.radius
    decay = 1 / radius if 0 < radius < math.inf else f[1] / f[0] if f.all() else math.inf
    return float(f[0] or 1.0), min(float(decay), pairs.start_decay(graphs))
