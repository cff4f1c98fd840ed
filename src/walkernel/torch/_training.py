"""The training loop that all fits share: Adam with a decaying rate, evaluated regularly, the best one kept.

A loop can be stopped with Ctrl-C at any time: the best parameters so far are restored and returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, real_number, refuse, whole_number
from walkernel.kernels import Kernel
from walkernel.torch._bounds import Bounds
from walkernel.torch._modulation import ModulationBase


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train: the rate is multiplied by ``gamma`` after every ``every`` epochs.

    With Adam a parameter moves by about the rate in each epoch, so its total distance is at most about
    ``learning_rate`` · ``every`` / (1 − ``gamma``): 4 by default, and 0.4 with ``Schedule.paper()``, which is
    too little for most random starts.

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
        """Return the schedule of Sec. 3.4: the rate falls after every epoch."""
        return Schedule(every=1)


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


def train(
    modulation: ModulationBase,
    schedule: Schedule,
    *,
    steps: Callable[[int], Iterable[Tensor]],  # epoch -> losses of its steps
    evaluate: Callable[[], float],  # smaller for better parameters
    evaluate_every: int,  # epochs
    patience: int | None = None,  # epochs without improvement after which training ends
    report: Callable[[int], object],  # epochs done
    largest_tensor: int,  # elements: where they are few, PyTorch runs on one thread
) -> Trained:
    """Minimise a loss over the parameters of a modulation, which is left with the best ones."""
    optimizer = torch.optim.Adam(modulation.parameters(), lr=schedule.learning_rate)
    rate = torch.optim.lr_scheduler.StepLR(optimizer, schedule.every, schedule.gamma)
    history: list[float] = []
    evaluations: list[tuple[int, float]] = [(0, evaluate())]
    best, kept = evaluations[0], deepcopy(modulation.state_dict())
    interrupted = False
    with _one_thread() if largest_tensor < MAX_ONE_THREAD_SIZE else nullcontext():
        try:
            for epoch in range(1, schedule.n_epochs + 1):
                history.append(_epoch(steps(epoch), epoch, modulation, optimizer))
                rate.step()
                if epoch % evaluate_every == 0 or epoch == schedule.n_epochs:
                    evaluations.append((epoch, evaluate()))
                    if evaluations[-1][1] < best[1] or not math.isfinite(best[1]):
                        best, kept = evaluations[-1], deepcopy(modulation.state_dict())
                report(epoch)
                if patience is not None and evaluations[-1][0] - best[0] >= patience:
                    break
        except KeyboardInterrupt:
            interrupted = True
    modulation.load_state_dict(kept)
    return Trained(np.array(history), np.array(evaluations), best[1], interrupted)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch to a single thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _epoch(
    steps: Iterable[Tensor], epoch: int, modulation: ModulationBase, optimizer: torch.optim.Optimizer
) -> float:
    """Take the steps of one epoch and return their mean loss."""
    losses = []
    for loss in steps:
        check_loss(epoch, loss)
        optimizer.zero_grad()
        (loss + modulation.penalty()).backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return float(np.mean(losses))


def check_loss(epoch: int, loss: object) -> None:
    """Refuse a loss that cannot be minimised."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        rule = "one that returns a number that depends on the prediction, as a tensor"
        got = Described(f"a tensor of shape {tuple(loss.shape)}") if isinstance(loss, Tensor) else loss
        refuse("loss", rule, got, error=TypeError)
    if not torch.isfinite(loss):
        refuse(
            "loss", "finite", Described(f"{float(loss.detach())} in epoch {epoch}"),
            "Use a smaller learning rate, another start, or a smaller decay of the modulation.",
        )  # fmt: skip
