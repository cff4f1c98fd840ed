"""Losses of predictions at nodes; any function of (prediction, target) that returns a number serves."""

from __future__ import annotations

import torch
from torch import Tensor


def angular_loss(
    prediction: Tensor,  # (b, k)
    target: Tensor,  # (b, k)
) -> Tensor:
    """Return the mean of 1 − cos θ, with θ the angle between prediction and target (Sec. 3.5).

    A prediction of zero, at a node that no known one is reached from, counts as a right angle.
    """
    return (1 - torch.nn.functional.cosine_similarity(prediction, target, dim=1)).mean()


def cross_entropy_loss(
    prediction: Tensor,  # (b, classes): scores
    target: Tensor,  # (b,): numbers of classes
) -> Tensor:
    """Return the mean of −log softmax(scores) at the true classes."""
    return torch.nn.functional.cross_entropy(prediction, target)


def squared_loss(
    prediction: Tensor,  # (b, k)
    target: Tensor,  # (b, k)
) -> Tensor:
    """Return the mean squared error."""
    return (prediction - target).square().mean()
