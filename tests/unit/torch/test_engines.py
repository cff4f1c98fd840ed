"""Learning with walks of any engine: the same numbers, and every walk sampled there."""

import numpy as np
import pytest

import engines
import graphs
import walkernel as wk
from walkernel.engines import CPU
from walkernel.torch import FreeModulation, Schedule, fit_to_kernel, fit_to_task, held_out_errors

KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)
HALF = wk.IndependentWalks(0.5)
SHORT = Schedule(n_epochs=2)
GRAPH = graphs.karate()


def kernel_fit(source):
    def numbers(**engine):
        options = {"walks": source, "schedule": SHORT, "n_samples": 2, "n_held_out": 3}
        fit = fit_to_kernel(GRAPH, KERNEL, 4, modulation=FreeModulation(5, decay=0.4), **options, **engine)
        return [*fit.history, *fit.chosen_by, *fit.errors[:-1], *fit.modulation.modulation(5)]

    return numbers


def task_fit(**engine):
    nodes, y = range(0, 34, 2), np.sin(np.arange(17.0))[:, None] + [0.0, 2.0]
    fit = fit_to_task(GRAPH, nodes, y, n_walks=4, schedule=SHORT, n_samples=2, **engine)
    return [*fit.history, *fit.validation.ravel(), fit.loss, *fit.modulation.modulation(5)]


def errors(**engine):
    damped = FreeModulation(KERNEL.modulation(20) * 0.9 ** np.arange(20))
    found = held_out_errors(GRAPH, KERNEL, damped, n_walks=4, sampler=HALF, n_samples=3, **engine)
    return list(found[:-1])


CALLS = {"fresh": kernel_fit("fresh"), "bank": kernel_fit("bank"), "expected": kernel_fit("expected")}
CALLS |= {"task": task_fit, "errors": errors}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_call
def test_every_engine_gives_the_same_numbers(call, monkeypatch):
    usual = call()
    for engine in (CPU(), CPU(2), "cpu"):
        assert call(engine=engine) == usual
    monkeypatch.setattr(CPU, "record", None)  # nothing else may sample
    assert np.allclose(call(engine=engines.Reference()), usual, rtol=1e-9, atol=1e-12)


@every_call
def test_unknown_engines_are_refused_before_any_work(call, monkeypatch):
    monkeypatch.setattr(CPU, "record", None)
    with pytest.raises(ValueError, match=r"^\w+: engine must be None, 'cpu', .* got 'nowhere'"):
        call(engine="nowhere")
    with pytest.raises(TypeError, match=r"^\w+: engine must be None, 'cpu', .* got 3"):
        call(engine=3)
