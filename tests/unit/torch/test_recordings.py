"""Steps that repeat are recorded and replayed; here a graph is a function that computes them again."""

import numpy as np
import pytest
import torch

import walkernel as wk
from walkernel.torch import FreeModulation, NeuralModulation, Schedule, fit_to_task, squared_loss
from walkernel.torch import _training as training

KARATE = wk.load_dataset("karate").graph
Y = np.sin(np.arange(34.0))[:, None] + [0.0, 2.0]


class Graph:
    """What stands for a CUDA graph: it writes to the same tensor whenever it is replayed."""

    n_replays = 0

    def __init__(self, take, loss):
        self.take, self.loss = take, loss

    def replay(self):
        Graph.n_replays += 1
        self.loss.copy_(self.take())


def record(steps, step, epoch):
    loss = torch.full((), torch.nan, dtype=torch.float64)
    return training._Recording(Graph(lambda: steps._take(step, epoch), loss), loss)


def fit(**options):
    options = {"n_samples": 2, "n_walks": 4, "modulation": NeuralModulation(decay=0.5)} | options
    return fit_to_task(KARATE, range(34), Y, schedule=Schedule(n_epochs=12), masked=0.2, **options)


@pytest.fixture
def replays(monkeypatch):
    monkeypatch.setattr(Graph, "n_replays", 0)
    monkeypatch.setattr(training._Steps, "_record", record)
    return lambda: Graph.n_replays


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"modulation": FreeModulation(5, strength=0.1)}])
def test_replayed_steps_give_the_same_numbers(options, replays, monkeypatch):
    single = fit(**options)
    assert replays() == 0
    monkeypatch.setattr(training, "RECORDING_DEVICE", "cpu")
    replayed = fit(**options)
    assert replays() >= 10, "all but the first steps of two samples"
    assert replayed.history.tolist() == single.history.tolist()
    assert replayed.validation.tolist() == single.validation.tolist()


class Odd(FreeModulation):
    """A modulation of somebody else's."""


@pytest.mark.parametrize(
    "options", [{"walks": "fresh"}, {"loss": lambda p, y: 2 * squared_loss(p, y)}, {"modulation": Odd(5)}]
)
def test_steps_that_may_change_are_not_replayed(options, replays, monkeypatch):
    monkeypatch.setattr(training, "RECORDING_DEVICE", "cpu")
    fit(**options)
    assert replays() == 0


def test_devices_that_cannot_record_take_single_steps(monkeypatch):
    expected, tries = fit().history.tolist(), []

    def refuse():
        tries.append(1)
        raise RuntimeError("no graphs here")

    monkeypatch.setattr(training, "RECORDING_DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    assert fit().history.tolist() == expected
    assert len(tries) == 1
