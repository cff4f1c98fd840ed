"""Schedules: how the rate falls, and what is refused."""

import numpy as np
import pytest

import walkernel as wk
from walkernel.torch import FreeModulation, Schedule, fit_to_kernel

RING = wk.Graph.from_edges([(i, (i + 1) % 8) for i in range(8)])
KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)


def test_schedules_fall_after_every_few_epochs():
    assert Schedule.paper() == Schedule(1000, 0.01, 0.975, 1)
    far, values = FreeModulation([50.0]), [50.0]
    for n_epochs in range(1, 7):
        schedule = Schedule(n_epochs, learning_rate=0.1, gamma=0.5, every=2)
        options = {"walks": "expected", "modulation": far, "schedule": schedule, "n_held_out": 2}
        values.append(fit_to_kernel(RING, KERNEL, 8, **options).modulation.theta.item())
    assert -np.diff(values) == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025], rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_epochs": 0}, "n_epochs must be .* at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be .* greater than 0, got 0.0"),
        ({"gamma": 1.1}, r"gamma must be .* got 1\.1"),
        ({"gamma": 0.0}, r"gamma must be .* got 0\.0"),
        ({"every": 0}, "every must be .* at least 1, got 0"),
    ],
)
def test_bad_schedules_are_refused(options, message):
    with pytest.raises(ValueError, match=f"Schedule: {message}"):
        Schedule(**options)
    assert Schedule(gamma=1.0).gamma == 1.0
