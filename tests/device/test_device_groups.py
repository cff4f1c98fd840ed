"""Sums over groups of walks on a device are those of the CPU, but for what all groups have in common."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.engines import CPU, CUDA, FeatureJob, _device_groups

SIZES = wk.Diffusion(1.0).modulation(16)
SAMPLERS = {
    "independent": wk.IndependentWalks(0.2),
    "coupled": wk.CoupledWalks((0.9, 0.6, 0.3), group=2),
    "pruned": wk.PrunedWalks(SIZES, threshold=1e-2, head=3, group=2),
    "unequal": wk.PrunedWalks(SIZES, threshold=0.06, head=3, unevenness=3.0, group=2),
}
EVERY = np.arange(30)


def job_of(graph, sampler, ids=EVERY, n_groups=4):
    spec = wk.sample_walks(graph, 32, sampler=sampler, seed=3).at(ids)
    return FeatureJob(spec, wk.Diffusion(1.0).modulation(spec.longest + 1), (0,), n_groups=n_groups)


def assert_same_deviations(found, expected, axis):
    ours, theirs = (each - each.mean(axis, keepdims=True) for each in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.usefixtures("groups_on_device")
@pytest.mark.parametrize("reached", [None, np.array([7, 0, 12, 25])])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_sums(sampler, reached, device, monkeypatch):
    """Also of few start nodes at a time, and of numbers whose squares overflow."""
    monkeypatch.setattr(_device_groups, "DEPOSITS_AT_ONCE", 3000)
    rng, job = np.random.default_rng(0), job_of(graphs.weighted(), sampler)
    n_columns = 30 if reached is None else reached.size
    u, v = 1e200 * rng.normal(size=(2, n_columns)), rng.normal(size=(30, 3))
    engine, nothing = CUDA(device, keep_features=False, block_size=13), np.empty((0, 0))
    found, expected = (each.project(job, u, v, reached) for each in (engine, CPU(1)))
    for axis, own, other in zip((2, 1), found, expected, strict=True):
        assert_same_deviations(own, other, axis)
    np.testing.assert_array_equal(engine.project(job, u, nothing, reached)[0], found[0])
    np.testing.assert_array_equal(engine.project(job, nothing, v, reached)[1], found[1])
    assert engine.project(job, u, nothing, reached)[1].shape == (0, 0, 0)
    others = rng.uniform(-1, 1, size=(2, n_columns, 2)).astype(np.float32)
    spread, other = (each.group_spread(job, np.abs(u), others, reached) for each in (engine, CPU(1)))
    np.testing.assert_allclose(spread, other, rtol=1e-11)


@pytest.mark.usefixtures("groups_on_device")
def test_nodes_that_nobody_reaches(device):
    engine, nobody = CUDA(device), np.empty(0, dtype=np.int64)
    job = job_of(graphs.isolated(), SAMPLERS["pruned"], np.arange(3))
    assert engine.project(job, np.empty((1, 0)), np.ones((3, 1)), nobody)[1].shape == (1, 4, 0)
    spread = engine.group_spread(job, np.ones((1, 0)), np.ones((1, 0, 2), dtype=np.float32), nobody)
    np.testing.assert_array_equal(spread, 0.0)


def test_few_walks_are_walked_on_the_cpu(device, monkeypatch):
    """By the size of a job alone: the results of the two differ in their bits."""
    graph, engine = graphs.weighted(), CUDA(device)
    small = job_of(graph, SAMPLERS["independent"])
    monkeypatch.setattr("walkernel.engines._cuda.FEW_DEPOSITS", 30 * 32 * 5 + 1)  # with 4 steps each
    above = job_of(graph, wk.IndependentWalks(0.19))
    on_device = []
    monkeypatch.setattr(
        "walkernel.engines._device_groups.project", lambda *job: on_device.append(job) or (None, None)
    )
    for job in (small, above):
        engine.project(job, np.ones((1, 30)), np.ones((30, 1)))
    assert [job for _, job, *_ in on_device] == [above]
    assert on_device[0][0] == CUDA(device, "float64")
