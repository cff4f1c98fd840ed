"""Losses of predictions at nodes; any function of (prediction, target) that returns a number serves."""

from __future__ import annotations

import torch
from torch import Tensor

from walkernel._checks import Described, refuse

NO_ANGLE = "Between numbers there is no angle: use squared_loss."


def angular_loss(
    prediction: Tensor,  # (b, k)
    target: Tensor,  # (b, k), k of at least 2
) -> Tensor:
    r"""Return the mean of 1 − cos θ, with θ the angle between prediction and target.

    .. math:: 1 - \frac{1}{b} \sum_i \frac{\hat y_i \cdot y_i}{\|\hat y_i\| \, \|y_i\|}

    It is for directions, such as normals of a surface (Section 3.5 of the paper). A prediction of zero, at a
    node that no known node reaches, counts as a right angle.

    Parameters
    ----------
    prediction : Tensor, (b, k)
        Predicted vectors, k ≥ 2, of any length.
    target : Tensor, (b, k)
        Known vectors.

    Returns
    -------
    Tensor, ()
        The loss, from 0 to 2.

    Examples
    --------
    >>> import torch
    >>> from walkernel.torch import angular_loss
    >>> angular_loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor(0.5000)
    """
    _same_shape(prediction, target)
    if prediction.ndim != 2 or prediction.shape[1] < 2:
        rule = "vectors, of shape (b, k) with k of at least 2"
        refuse("target", rule, Described(f"shape {tuple(target.shape)}"), NO_ANGLE)
    return (1 - torch.nn.functional.cosine_similarity(prediction, target, dim=1)).mean()


def cross_entropy_loss(
    prediction: Tensor,  # (b, classes): scores
    target: Tensor,  # (b,): numbers of classes
) -> Tensor:
    r"""Return the mean of −log softmax(scores) at the true classes, the loss of classification.

    .. math:: -\frac{1}{b} \sum_i \log \frac{e^{s_{i, y_i}}}{\sum_c e^{s_{i, c}}}

    Parameters
    ----------
    prediction : Tensor, (b, n_classes)
        Scores s of the classes.
    target : Tensor of int, (b,)
        Numbers y of the true classes.

    Returns
    -------
    Tensor, ()
        The loss, in nats.

    Examples
    --------
    >>> import torch
    >>> from walkernel.torch import cross_entropy_loss
    >>> cross_entropy_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.6931)
    """
    if target.ndim != 1 or target.is_floating_point():
        got = Described(f"{target.dtype} of shape {tuple(target.shape)}")
        refuse("target", "numbers of classes, (b,)", got, "Give y as labels.")
    return torch.nn.functional.cross_entropy(prediction, target)


def squared_loss(
    prediction: Tensor,  # (b, k)
    target: Tensor,  # (b, k)
) -> Tensor:
    r"""Return the mean squared error, the loss of regression.

    .. math:: \frac{1}{bk} \sum_{i, j} (\hat y_{ij} - y_{ij})^2

    Parameters
    ----------
    prediction : Tensor, (b, k)
        Predicted values.
    target : Tensor, (b, k)
        Known values.

    Returns
    -------
    Tensor, ()
        The loss, in the squared unit of the values.

    Examples
    --------
    >>> import torch
    >>> from walkernel.torch import squared_loss
    >>> squared_loss(torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0], [1.0]]))
    tensor(2.)
    """
    _same_shape(prediction, target)
    return (prediction - target).square().mean()


LOSSES = (angular_loss, cross_entropy_loss, squared_loss)
"""Losses that do the same operations whenever they are called, and none that waits for a device."""


def _same_shape(prediction: Tensor, target: Tensor) -> None:
    """Refuse targets whose shape would be broadcast against the predictions."""
    if prediction.shape != target.shape:
        rule = f"of the shape of the prediction, {tuple(prediction.shape)}"
        got = Described(f"shape {tuple(target.shape)}")
        refuse("target", rule, got, "For labels use cross_entropy_loss, or give y as floats.")
