"""The losses by hand, and targets that they refuse."""

import numpy as np
import pytest
import torch

from walkernel.torch import angular_loss, cross_entropy_loss, squared_loss


def test_losses_by_hand():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5, 3))
    prediction, target = torch.tensor(a), torch.tensor(b)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert angular_loss(prediction, target).item() == pytest.approx((1 - cosines).mean())
    assert angular_loss(0 * prediction, target).item() == 1
    assert squared_loss(prediction, target).item() == pytest.approx(((a - b) ** 2).mean())
    classes = np.array([0, 2, 1, 1, 0])
    shares = np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)
    expected = -np.log(shares[np.arange(5), classes]).mean()
    assert cross_entropy_loss(prediction, torch.tensor(classes)).item() == pytest.approx(expected)


def test_targets_of_other_shapes_are_not_broadcast():
    x = torch.ones(2, 2)
    for loss in (angular_loss, squared_loss):
        with pytest.raises(
            ValueError, match=r"target must be of the shape of the prediction, \(2, 2\), got shape"
        ):
            loss(x, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"target must be numbers of classes, \(b,\), got torch\.float32"):
        cross_entropy_loss(x, x)
