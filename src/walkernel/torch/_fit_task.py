"""Implicit kernel learning (Sec. 3.5): f is trained to predict the values at nodes that are hidden in turn.

In each epoch a few of the training nodes are hidden, their values are predicted from the others,

    v̂_i = Σ_j K̂_ij v_j       or, normalized, that divided by Σ_j K̂_ij,

and f takes a step down the loss of v̂ against v. No kernel matrix is formed: K̂ v = Φ₁(Φ₂ᵀ v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from walkernel._checks import (
    MATRICES,
    Described,
    check_distinct,
    check_flag,
    check_instance,
    one_kind,
    one_of,
    progress_callback,
    real_array,
    real_number,
    refuse,
    shown,
    whole_number,
)
from walkernel._door import door
from walkernel._philox import check_seed
from walkernel.engines import Engine
from walkernel.graph import Graph
from walkernel.torch._bounds import learned_bounds
from walkernel.torch._held_out import SELECTION, TRAINING, Pairs, check_pairs
from walkernel.torch._losses import LOSSES, NO_ANGLE, angular_loss
from walkernel.torch._modulation import ModulationBase, NeuralModulation, check_modulation
from walkernel.torch._training import Fit, Schedule, Step, check_loss, train
from walkernel.torch._walk_tensors import WalkTensors
from walkernel.walks import Sampler

SOURCES = ("bank", "fresh")
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskFit(Fit):
    """A modulation function that was learned for a task; ``fit_to_task`` returns it.

    Attributes
    ----------
    modulation : NeuralModulation, FreeModulation or ModulationPair
        The best that was found, by its loss at the validation nodes.
    kernel : Kernel
        The kernel that it estimates: Σ (f * f)_k Mᵏ.
    history : ndarray, (epochs,)
        Training loss.
    validation : ndarray, (times, 2)
        Epoch, and loss at the validation nodes after it.
    loss : float
        The least of these.
    bounds : Bounds
        Theorem 2.3 and its corollary for the learned kernel and the training nodes.
    classes : ndarray or None
        The labels that columns of predictions stand for.
    interrupted : bool
        Whether Ctrl-C ended the training early.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import Schedule, fit_to_task
    >>> mesh = wk.datasets.cylinder_mesh(8, 4)
    >>> fit = fit_to_task(mesh.graph, range(34), mesh.normals, schedule=Schedule(n_epochs=5))
    >>> fit.history.shape, fit.kernel.coefficients(2).shape
    ((5,), (2,))
    """

    validation: NDArray[np.float64]
    loss: float
    classes: NDArray[Any] | None

    def report(self) -> str:
        """Return a description of what was learned.

        Returns
        -------
        str
            Sentences with the numbers.
        """
        before = self.validation[0, 1]
        return self._describe(
            "", f"Loss at the validation nodes: {before:.5g} before, {self.loss:.5g} at best."
        )


@door
def fit_to_task(
    graph: Graph,
    nodes: Any,
    y: ArrayLike,
    *,
    loss: Loss = angular_loss,
    n_walks: int = 16,
    sampler: Sampler | None = None,
    modulation: ModulationBase | None = None,
    matrix: str = "normalized",
    walks: str = "bank",
    ensembles: str = "independent",
    n_samples: int = 8,
    masked: float = 0.05,
    validation: float = 0.1,
    normalize: bool = False,
    batch_size: int | None = None,
    patience: int | None = 200,
    schedule: Schedule | None = None,
    seed: int = 0,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> TaskFit:
    r"""Learn the modulation function that best predicts values at some nodes from values at others.

    .. math:: \min_f \; \sum_{i \text{ hidden}} \text{loss}
        \Big(\sum_{j \text{ known}} \widehat{K}_{ij} \, y_j, \; y_i\Big)
        , \qquad \widehat{K} = \Phi_f \Psi_f^\top

    Parameters
    ----------
    graph : Graph
        The graph.
    nodes : list of nodes, (n,)
        Nodes with known values: names (``graph.labels``) if the graph has them, else ids.
    y : array, (n,) or (n, k)
        Their values, vectors of k of at least 2 numbers for ``angular_loss``; or labels (whole numbers or
        text): one column of zeros and ones for each class is then predicted, and the loss is given numbers of
        classes.
    loss : callable
        Of (prediction (b, k), target (b, k) or (b,)); ``angular_loss``, ``squared_loss``,
        ``cross_entropy_loss`` or any differentiable function. On a CUDA device steps with the first three,
        from a bank, are recorded once and replayed, which is faster.
    n_walks : int
        Walks from each node. The learned f serves this number: with fewer walks it weights long ones less.
    sampler : Sampler, optional
        How walks are drawn; ``IndependentWalks(p_halt=0.5)``, the paper's for this task, if not given.
    modulation : NeuralModulation, FreeModulation or ModulationPair, optional
        Where to start, and with it the family of f; it is not changed. Training is on the device of its
        parameters, and walks that ``engine`` has sampled there stay there. The paper's network, nearly flat,
        with a decay for which the walks have finite variance, if not given.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M.
    walks : {"bank", "fresh"}
        Learn from ``n_samples`` samples of walks in turn, or from new walks in every epoch.
    ensembles : {"independent", "shared"}
        Walks of the rows and of the columns of K̂: two sets, or one.
    n_samples : int
        Samples of the bank.
    masked : float
        Share of the training nodes, from 0 to 1, that is hidden and predicted in an epoch.
    validation : float
        Share of the nodes, from 0 to 1, that is held out, to decide when to stop and which parameters are
        best.
    normalize : bool
        Divide predictions by Σ_j K̂_ij.
    batch_size : int, optional
        Number of hidden nodes per step; all at once if not given.
    patience : int, optional
        Epochs without a better validation loss after which training ends; None for all epochs.
    schedule : Schedule, optional
        Number of epochs and rates.
    seed : int
        Seed of the walks and of the choice of nodes.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see :mod:`walkernel.engines`.
    progress : callable, optional
        Called with (epochs done, epochs in all).

    Returns
    -------
    TaskFit
        The modulation function, its kernel, and the losses.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import Schedule, fit_to_task
    >>> mesh = wk.datasets.cylinder_mesh()
    >>> fit = fit_to_task(mesh.graph, range(mesh.graph.n_nodes), mesh.normals, schedule=Schedule(n_epochs=50))
    >>> bool(fit.loss < fit.validation[0, 1])
    True
    """
    check_instance("graph", graph, Graph)
    schedule = Schedule() if schedule is None else schedule
    check_instance("schedule", schedule, Schedule)
    if not callable(loss):
        refuse("loss", "a function of (prediction, target)", loss, error=TypeError)
    check_flag("normalize", normalize)
    one_of("matrix", matrix, MATRICES)
    pairs = check_pairs([graph], matrix, n_walks, sampler, ensembles, engine)
    if modulation is None:
        start: ModulationBase = NeuralModulation(decay=pairs.start_decay([graph]))
    else:
        check_modulation(modulation)
        start = deepcopy(modulation)
    values = _values(graph, nodes, y, next(start.parameters()))
    if loss is angular_loss and values.spread.shape[1] < 2:
        rule = "vectors, of shape (n, k) with k of at least 2, for angular_loss"
        refuse("y", rule, Described(f"shape {np.shape(y)}"), NO_ANGLE)
    n_samples = whole_number("n_samples", n_samples, 1)
    task = _Task(
        graph,
        values,
        start,
        loss,
        pairs,
        masked=real_number("masked", masked, above=0, below=1),
        validation_share=real_number("validation", validation, above=0, below=1),
        normalize=bool(normalize),
        batch_size=None if batch_size is None else whole_number("batch_size", batch_size, 1),
        n_in_bank=n_samples if one_of("walks", walks, SOURCES) == "bank" else 0,
        seed=check_seed(seed),
    )
    report = progress_callback(progress) or (lambda done, total: None)
    total = schedule.n_epochs
    patience = None if patience is None else whole_number("patience", patience, 1)
    every = max(1, min(total // 20, (patience or total) // 4))
    found = train(
        start, schedule, steps=task.steps, evaluate=task.evaluate, evaluate_every=every, patience=patience,
        report=lambda epoch: report(epoch, total), largest_tensor=values.ids.size * pairs.n_walks,
    )  # fmt: skip
    length = start.n_terms(pairs.sampler.longest + 1)
    return TaskFit(
        modulation=start,
        kernel=start.as_kernel(length=length, matrix=matrix),
        history=found.history,
        bounds=learned_bounds(start, graph, task.training.size, matrix=matrix, length=length),
        interrupted=found.interrupted,
        validation=found.evaluations,
        loss=found.best,
        classes=values.classes,
    )


class _Values(NamedTuple):
    """Nodes, the values that the kernel spreads from them, and the targets of the loss."""

    ids: NDArray[np.int64]  # (n,)
    spread: Tensor  # (n, k)
    targets: Tensor  # (n, k), or (n,) numbers of classes
    classes: NDArray[Any] | None


@dataclass(eq=False)
class _Task:
    """The loss of predictions at hidden nodes."""

    graph: Graph
    values: _Values
    modulation: ModulationBase
    loss: Loss
    pairs: Pairs
    masked: float
    validation_share: float
    normalize: bool
    batch_size: int | None
    n_in_bank: int  # 0 for new walks in every epoch
    seed: int

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        order = self.random.permutation(self.values.ids.size)
        n_validation = min(max(1, round(self.validation_share * order.size)), order.size - 2)
        self.validation, self.training = order[:n_validation], order[n_validation:]
        spread = self.values.spread
        self._is_training = spread.new_zeros(len(spread), 1)
        self._is_training[self.training] = 1
        self._known, self._batches = self._is_training.clone(), dict[int, Tensor]()
        self.validation_walks = self._sample(SELECTION, 0)
        self.bank = [self._sample(TRAINING, k) for k in range(self.n_in_bank)]

    def _sample(self, purpose: int, number: int) -> tuple[WalkTensors, WalkTensors]:
        """Return walks from the nodes with values."""
        key, values = (purpose, self.seed, number), self.values
        return self.pairs.tensors(self.graph, *key, like=values.spread, ids=values.ids)

    def steps(self, epoch: int) -> Iterator[Step]:
        """Hide some nodes and yield a step for each batch of them.

        The nodes are written to the same tensors in every epoch.
        """
        n_hidden = min(max(1, round(self.masked * self.training.size)), self.training.size - 1)
        chosen = self.random.choice(self.training, n_hidden, replace=False, shuffle=False)
        hidden = torch.from_numpy(chosen).to(self._known.device, non_blocking=True)
        number = epoch % len(self.bank) if self.bank else epoch
        sample = self.bank[number] if self.bank else self._sample(TRAINING, epoch)
        self._known.copy_(self._is_training).index_fill_(0, hidden, 0)
        for part in hidden.split(self.batch_size or n_hidden):
            size = part.numel()
            batch = self._batches.setdefault(size, torch.empty_like(part)).copy_(part)
            key = (number, size) if self.bank and self.loss in LOSSES else None
            yield Step(partial(self._loss_at, batch, self._known, sample), key)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the loss at the validation nodes, predicted from all training nodes."""
        hidden = torch.from_numpy(self.validation).to(self._known.device)
        loss = self._loss_at(hidden, self._is_training, self.validation_walks)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            check_loss(loss)
        return float(loss)

    def _loss_at(
        self,
        hidden: Tensor,  # (b,)
        is_known: Tensor,  # (n, 1): ones and zeros
        sample: tuple[WalkTensors, WalkTensors],
    ) -> Tensor:
        left, right = sample
        first, second = self.modulation.sides(max(left.n_lengths, right.n_lengths))
        spread = self.values.spread
        columns = torch.cat([spread, torch.ones_like(is_known)], dim=1) if self.normalize else spread
        predicted = left.matmul_at(hidden, first, right.t_matmul(second, is_known * columns))
        if self.normalize:
            predicted, weight = predicted[:, :-1], predicted[:, -1:]
            predicted = predicted / weight.masked_fill(weight == 0, 1)
        return self.loss(predicted, self.values.targets.index_select(0, hidden))


def _values(graph: Graph, nodes: Any, y: ArrayLike, like: Tensor) -> _Values:
    """Check nodes and their values; labels become columns of zeros and ones."""
    ids = graph.ids(nodes)
    check_distinct("nodes", ids, graph.names)
    if ids.size < 3:
        refuse("nodes", "at least 3, to hide one, keep one and validate on one", Described(str(ids.size)))
    options: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
    if isinstance(y, (list, tuple)):
        one_kind("y", y)
    try:
        array = np.asarray(y)
    except ValueError:
        refuse("y", "a rectangular array", y)
    if array.shape[:1] != (ids.size,):
        refuse("y", f"one row for each of {ids.size} nodes", Described(f"shape {array.shape}"))
    if array.ndim == 1 and array.dtype.kind in "iubUSO":
        try:
            classes, numbers = np.unique(array, return_inverse=True)
        except TypeError:
            refuse("y", "labels of one kind, whole numbers or text", y, error=TypeError)
        if classes.size < 2:
            refuse("y", "labels of at least two classes", Described(f"only {shown(classes[0])}"))
        ones = torch.as_tensor(np.eye(classes.size)[numbers], **options)
        return _Values(ids, ones, torch.as_tensor(numbers, device=like.device), classes)
    array = real_array("y", y)
    if array.ndim not in (1, 2) or array.size == 0:
        refuse("y", "of one or two dimensions, and not empty", array)
    columns = torch.tensor(np.ascontiguousarray(array.reshape(ids.size, -1)), **options)
    return _Values(ids, columns, columns, None)
