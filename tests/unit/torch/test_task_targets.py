"""Targets that a loss cannot learn from are refused before anything is walked."""

import numpy as np
import pytest
import torch

import graphs
from walkernel.torch import Schedule, angular_loss, fit_to_task, squared_loss

GRAPH = graphs.karate()
SCHEDULE = Schedule(n_epochs=1)
SCALARS = {
    "array": np.linspace(-1, 1, 34),
    "list": np.linspace(-1, 1, 34).tolist(),
    "column": np.linspace(-1, 1, 34)[:, None],
}


def twice_the_loss(prediction, target):
    return 2 * angular_loss(prediction, target)


@pytest.mark.parametrize("y", SCALARS.values(), ids=SCALARS)
def test_numbers_have_no_angle(y):
    message = r"^fit_to_task: y must be vectors, of shape \(n, k\) with k of at least 2, .*squared_loss\.$"
    with pytest.raises(ValueError, match=message):
        fit_to_task(GRAPH, range(34), y, schedule=SCHEDULE)
    message = r"^angular_loss: target must be vectors, of shape \(b, k\) with k of at least 2, got shape \("
    with pytest.raises(ValueError, match=message):
        fit_to_task(GRAPH, range(34), y, loss=twice_the_loss, schedule=SCHEDULE, n_walks=2)


def test_other_losses_and_vectors_are_taken():
    options = {"schedule": SCHEDULE, "n_walks": 2, "n_samples": 1}
    assert np.isfinite(fit_to_task(GRAPH, range(34), SCALARS["array"], loss=squared_loss, **options).loss)
    vectors = np.random.default_rng(0).normal(size=(34, 2))
    assert np.isfinite(fit_to_task(GRAPH, range(34), vectors, **options).loss)


def test_the_loss_itself():
    with pytest.raises(ValueError, match="angular_loss: target must be vectors"):
        angular_loss(torch.ones(4, 1), torch.ones(4, 1))
    with pytest.raises(ValueError, match="angular_loss: target must be vectors"):
        angular_loss(torch.ones(4), torch.ones(4))


def test_labels_of_several_kinds():
    message = "^fit_to_task: y must be labels of one kind, all text or all numbers, got"
    with pytest.raises(TypeError, match=message):
        fit_to_task(GRAPH, range(34), ["1", 1] * 17, schedule=SCHEDULE)
