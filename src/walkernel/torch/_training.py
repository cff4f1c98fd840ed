"""The training loop that all fits share: Adam with a decaying rate, evaluated regularly, the best one kept.

A loop can be stopped with Ctrl-C at any time: the best parameters so far are restored and returned. On a CUDA
device nothing waits for the losses between evaluations, and steps that repeat are recorded and replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, real_number, refuse, whole_number
from walkernel.kernels import Kernel
from walkernel.torch._bounds import Bounds
from walkernel.torch._modulation import FreeModulation, ModulationBase, ModulationPair, NeuralModulation


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train: the rate is multiplied by ``gamma`` after every ``every`` epochs.

    With Adam a parameter moves by about the rate in each epoch, so its total distance is at most about
    ``learning_rate`` · ``every`` / (1 − ``gamma``): 4 by default, and 0.4 with ``Schedule.paper()``, which is
    too little for most random starts.

    Parameters
    ----------
    n_epochs : int
        Number of epochs. Decrease it for a first try.
    learning_rate : float
        The rate of Adam at the beginning, in the unit of the parameters per epoch.
    gamma : float in (0, 1]
        Factor by which the rate falls.
    every : int
        Number of epochs after which it falls.

    Examples
    --------
    >>> from walkernel.torch import Schedule
    >>> Schedule.paper()
    Schedule(n_epochs=1000, learning_rate=0.01, gamma=0.975, every=1)
    """

    n_epochs: int = 1000
    learning_rate: float = 0.01
    gamma: float = 0.975
    every: int = 10

    def __post_init__(self) -> None:
        whole_number("n_epochs", self.n_epochs, 1)
        real_number("learning_rate", self.learning_rate, above=0)
        real_number("gamma", self.gamma, above=0, below=1 + 1e-15)
        whole_number("every", self.every, 1)

    @staticmethod
    def paper() -> Schedule:
        """Return the schedule of Sec. 3.4 of the paper: the rate falls after every epoch.

        Returns
        -------
        Schedule
            With ``every=1``.
        """
        return Schedule(every=1)


class Step(NamedTuple):
    """One step of an epoch, which computes its loss.

    Steps with the same key do the same operations on the same tensors, whose contents may have changed. Where
    that is not known, the key is None.
    """

    loss: Callable[[], Tensor]
    key: Hashable


class Trained(NamedTuple):
    """Losses of all epochs, evaluations, and how the loop ended."""

    history: NDArray[np.float64]  # (epochs,)
    evaluations: NDArray[np.float64]  # (n_evaluations, 2): epoch and value
    best: float
    interrupted: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """What every fit returns: the best modulation that was found, and how its training went."""

    modulation: ModulationBase
    kernel: Kernel
    history: NDArray[np.float64]
    bounds: Bounds
    interrupted: bool

    def _describe(self, course: str, losses: str) -> str:
        ended = ", ended by an interrupt" if self.interrupted else ""
        f = " ".join(f"{value:.4g}" for value in self.modulation.sides(6)[0].tolist())
        return f"{len(self.history)} epochs{course}{ended}; f = {f} …\n{losses}\n{self.bounds.report()}"


MAX_ONE_THREAD_SIZE = 2**17
"""Size of the largest tensor of a step below which one thread is faster than several."""
RECORDING_DEVICE = "cuda"
"""The kind of device on which steps are recorded."""


def train(
    modulation: ModulationBase,
    schedule: Schedule,
    *,
    steps: Callable[[int], Iterable[Step]],  # epoch -> its steps, each to be taken before the next one
    evaluate: Callable[[], float],  # smaller for better parameters
    evaluate_every: int,  # epochs
    patience: int | None = None,  # epochs without improvement after which training ends
    report: Callable[[int], object],  # epochs done
    largest_tensor: int,  # elements: where they are few, PyTorch runs on one thread
) -> Trained:
    """Minimise a loss over the parameters of a modulation, which is left with the best ones."""
    device = next(modulation.parameters()).device
    initial: float | Tensor = schedule.learning_rate
    if device.type == "cuda":  # where recordings read it
        initial = torch.tensor(initial, dtype=torch.float64, device=device)
    optimizer = torch.optim.Adam(modulation.parameters(), lr=initial, capturable=device.type == "cuda")
    rate = torch.optim.lr_scheduler.StepLR(optimizer, schedule.every, schedule.gamma)
    take, history = _Steps(modulation, optimizer), _History()
    evaluations: list[tuple[int, float]] = [(0, evaluate())]
    best, kept = evaluations[0], deepcopy(modulation.state_dict())
    interrupted = False
    with _one_thread() if largest_tensor < MAX_ONE_THREAD_SIZE else nullcontext():
        try:
            for epoch in range(1, schedule.n_epochs + 1):
                history.append([take(step, epoch) for step in steps(epoch)])
                rate.step()
                if epoch % evaluate_every == 0 or epoch == schedule.n_epochs:
                    history.fetch()
                    evaluations.append((epoch, evaluate()))
                    if evaluations[-1][1] < best[1] or not math.isfinite(best[1]):
                        best, kept = evaluations[-1], deepcopy(modulation.state_dict())
                report(epoch)
                if patience is not None and evaluations[-1][0] - best[0] >= patience:
                    break
        except KeyboardInterrupt:
            interrupted = True
    history.fetch()
    modulation.load_state_dict(kept)
    return Trained(np.array(history.means), np.array(evaluations), best[1], interrupted)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch to a single thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _History:
    """Mean losses of epochs, which are fetched from their device some epochs at a time, and then checked."""

    def __init__(self) -> None:
        self.means: list[float] = []
        self._waiting: list[list[Tensor]] = []

    def append(self, losses: list[Tensor]) -> None:
        """Add the losses of the steps of an epoch."""
        self._waiting.append(losses)

    def fetch(self) -> None:
        """Wait for the losses, and refuse those that are not finite."""
        if self._waiting:
            values = iter(torch.stack([loss for losses in self._waiting for loss in losses]).tolist())
            for losses in self._waiting:
                own = [next(values) for _ in losses]
                for value in own:
                    check_finite(len(self.means) + 1, value)
                self.means.append(float(np.mean(own)))
        self._waiting.clear()


class _Recording(NamedTuple):
    """The operations of a step on a CUDA device, and the tensors that they write to."""

    graph: torch.cuda.CUDAGraph
    loss: Tensor


class _Room(NamedTuple):
    """Where the steps of a fit are recorded: their stream, and the memory that they share."""

    stream: torch.cuda.Stream
    pool: tuple[int, int]


class _Steps:
    """Takes steps down their losses, which are returned.

    On a CUDA device a step whose key has come before is recorded as a CUDA graph, and replayed from then on:
    otherwise most of its time would go to launching some hundred short operations.
    """

    def __init__(self, modulation: ModulationBase, optimizer: torch.optim.Optimizer) -> None:
        self._modulation, self._optimizer = modulation, optimizer
        self.device = next(modulation.parameters()).device
        self._replays = self.device.type == RECORDING_DEVICE and _is_repeatable(modulation)
        self._recordings: dict[Hashable, _Recording | None] = {}

    def __call__(self, step: Step, epoch: int) -> Tensor:
        """Take a step and return its loss."""
        recording = self._recording(step, epoch)
        if recording is None:
            return self._take(step, epoch)
        recording.graph.replay()
        return recording.loss.clone()

    def _recording(self, step: Step, epoch: int) -> _Recording | None:
        """Return the recording of a step, made when its key comes for the second time."""
        if not self._replays or step.key is None:
            return None
        if step.key not in self._recordings:
            self._recordings[step.key] = None
            return None
        if self._recordings[step.key] is None:
            self._recordings[step.key] = self._record(step, epoch)
        return self._recordings[step.key]

    @cached_property
    def _room(self) -> _Room:
        return _Room(torch.cuda.Stream(self.device), torch.cuda.graph_pool_handle())

    def _record(self, step: Step, epoch: int) -> _Recording | None:
        """Record a step, or give up all recordings if the device cannot."""
        try:
            graph = torch.cuda.CUDAGraph()
            with (
                torch.cuda.device(self.device),
                torch.cuda.stream(torch.cuda.current_stream()),  # which a failure would not restore
                torch.cuda.graph(graph, pool=self._room.pool, stream=self._room.stream),
            ):
                loss = self._take(step, epoch)
        except RuntimeError:
            self._replays = False
            return None
        return _Recording(graph, loss)

    def _take(self, step: Step, epoch: int) -> Tensor:
        loss = step.loss()
        check_loss(loss)
        if loss.device.type == "cpu":
            check_finite(epoch, float(loss.detach()))
        self._optimizer.zero_grad()
        (loss + self._modulation.penalty()).backward()
        self._optimizer.step()
        return loss.detach().reshape(())


def _is_repeatable(modulation: ModulationBase) -> bool:
    """Whether a modulation does the same operations whenever it is called: not known of other classes."""
    known = (NeuralModulation, FreeModulation, ModulationPair)
    return all(type(one) in known for one in modulation.modules() if isinstance(one, ModulationBase))


def check_loss(loss: object) -> None:
    """Refuse a loss that cannot be minimised."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        rule = "one that returns a number that depends on the prediction, as a tensor"
        got = Described(f"a tensor of shape {tuple(loss.shape)}") if isinstance(loss, Tensor) else loss
        refuse("loss", rule, got, error=TypeError)


def check_finite(epoch: int, loss: float) -> None:
    """Refuse the loss of a step that is not a finite number."""
    if not math.isfinite(loss):
        refuse(
            "loss", "finite", Described(f"{loss} in epoch {epoch}"),
            "Use a smaller learning rate, another start, or a smaller decay of the modulation.",
        )  # fmt: skip
