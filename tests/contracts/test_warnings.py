"""Warnings: each public call gives one, once, at the line of the caller."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import graphs
import walkernel as wk
from commands import call as command
from walkernel._door import door, warn, without_warnings

SOURCES = Path(wk.__file__).parent
KARATE = graphs.karate()
NODES, TARGETS = np.arange(34), np.arange(34) % 3.0
WIDE, SHORT = wk.RegularizedLaplacian(2, 2.0), wk.IndependentWalks(0.5)
SHORT_OPTIONS = {"n_walks": 8, "sampler": SHORT}


def given(function, *args, **kwargs):
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    return caught


def quiet(function, *args, **kwargs):
    """Return what a call returns, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def jump(t):
    """A source that no number of points of quadrature suffices for."""
    return np.eye(34)[0] * (t > 0.7123)


def estimator(name, **options):
    return getattr(wk, name)(KARATE, WIDE, **SHORT_OPTIONS, **options)


def fit(name, **options):
    return lambda: estimator(name, **options).fit(NODES, TARGETS)


def fitted(name, **options):
    return quiet(estimator(name, **options).fit, NODES, TARGETS)


def lonely_smoother():
    graph = wk.Graph.from_edges([(0, 1), (2, 3)])
    return wk.NodeSmoother(graph, wk.Diffusion(1.0), n_walks=4, average=True, method="walks").fit([0], [1.0])


def gpytorch_kernel():
    torch = pytest.importorskip("walkernel.torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the first import
        kernel = torch.GRFKernel
    return lambda: kernel(KARATE, WIDE, n_walks=8, sampler=SHORT)


CALLS = {
    "estimate_kernel": lambda: wk.estimate_kernel(KARATE, WIDE, 8, sampler=SHORT),
    "estimate_kernel, stitched": lambda: wk.estimate_kernel(KARATE, WIDE, 8, sampler=SHORT, stitches=3),
    "estimate": lambda: quiet(wk.estimate_kernel, KARATE, WIDE, 32, sampler=SHORT).estimate(0, 1),
    "estimate_product": lambda: quiet(wk.estimate_kernel, KARATE, WIDE, 32, sampler=SHORT).estimate_product(
        np.ones(34)
    ),
    "explain": lambda: quiet(wk.estimate_kernel, KARATE, WIDE, 32, sampler=SHORT).explain(),
    "explain, stitched": lambda: quiet(
        wk.estimate_kernel, KARATE, WIDE, 32, sampler=SHORT, stitches=2
    ).explain(),
    "sample_features": lambda: wk.sample_features(KARATE, WIDE, 8, sampler=SHORT),
    "Walks.features": lambda: wk.sample_walks(KARATE, 8, sampler=SHORT).features(WIDE),
    "NodeFeatures.fit_transform": lambda: estimator("NodeFeatures").fit_transform(NODES),
    "NodeFeatures.transform": lambda: fitted("NodeFeatures").transform(NODES),
    "NodeRidge.fit": fit("NodeRidge"),
    "NodeRidge.predict": lambda: fitted("NodeRidge").predict(NODES),
    "NodeSmoother.fit": fit("NodeSmoother"),
    "NodeGPRegressor.fit": fit("NodeGPRegressor", learn=()),
    "NodeGPRegressor.predict": lambda: fitted("NodeGPRegressor", learn=()).predict(NODES, return_std=True),
    "NodeGPClassifier.fit": fit("NodeGPClassifier", learn=()),
    "NodeGPClassifier.predict": lambda: fitted("NodeGPClassifier", learn=()).predict(NODES),
    "a step of a pipeline": lambda: make_pipeline(estimator("NodeFeatures")).fit(NODES),
    "NodeSmoother.predict": lambda: lonely_smoother().predict([2, 3]),
    "KernelKMeans, square array": lambda: wk.KernelKMeans(2).fit(np.eye(8)),
    "KernelKMeans, few iterations": lambda: wk.KernelKMeans(4, max_iter=1, n_init=1).fit(
        np.random.default_rng(0).normal(size=(200, 2))
    ),
    "solve_ode, growth": lambda: wk.solve_ode(
        KARATE, np.eye(34)[0], 1.0, matrix="adjacency", method="polynomial"
    ),
    "solve_ode, quadrature": lambda: wk.solve_ode(KARATE, jump, [0.5, 1.0, 1.5], method="polynomial"),
    "solve_ode, short walks": lambda: wk.solve_ode(
        KARATE, None, 40.0, initial=np.eye(34)[0], sampler=SHORT, n_walks=64
    ),
    "Graph.from_edges": lambda: wk.Graph.from_edges([(0, 1), (0, 1)], directed=True),
}


def check_one(caught):
    """Check that there is one warning, and that it points into this file."""
    assert len(caught) == 1, [str(warning.message) for warning in caught]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", CALLS)
def test_once_at_the_line_of_the_caller(name):
    check_one(given(CALLS[name]))


def test_a_kernel_of_gpytorch():
    check_one(given(gpytorch_kernel()))


def test_the_line_is_that_of_the_call():
    here = inspect.currentframe().f_lineno
    caught = given(lambda: wk.sample_features(KARATE, WIDE, 8, sampler=SHORT))
    assert caught[0].lineno == here + 1


def test_every_call_warns_again():
    def twice():
        for _ in range(2):
            wk.sample_features(KARATE, WIDE, 8, sampler=SHORT)

    assert len(given(twice)) == 2


def test_scikit_learn_in_between():
    """It fits clones, each of them a call of its own, from the line where it was called itself."""
    caught = given(cross_val_score, estimator("NodeRidge"), NODES, TARGETS, cv=3)
    assert {warning.filename for warning in caught} == {__file__}
    assert len(caught) == 6  # fit and score of each part


def test_work_that_is_only_tried_does_not_count():
    @door
    def call():
        with without_warnings(wk.InfiniteVarianceWarning):
            warn("tried", wk.InfiniteVarianceWarning)
            warn("plain")
        warn("meant", wk.InfiniteVarianceWarning)

    assert [str(warning.message).lstrip(": ") for warning in given(call)] == ["plain", "meant"]


def test_a_failure_ends_the_call():
    @door
    def call(fails):
        warn("told")
        if fails:
            raise KeyError

    def twice():
        with pytest.raises(KeyError):
            call(True)
        call(False)

    assert len(given(twice)) == 2


def test_commands_warn_once():
    line = "ode karate --source 0 --times 0.5 1 --equation adjacency --method polynomial --json"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = command(*line.split())
    assert result.exit_code == 0
    assert result.stderr.count("Warning:") == 1


def test_nobody_warns_past_the_door():
    found = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search(r"warnings\.warn|from warnings import|stacklevel", path.read_text(encoding="utf-8"))
    ]
    assert found == ["_door.py"]


def refusal(call):
    """Return the name that a refusal begins with."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return str(caught.value).partition(": ")[0]


def test_a_refusal_has_the_name_of_the_public_call():
    """Whatever checks the argument: the function, method or class that the user has called is named."""
    heat = wk.Diffusion(1.0)
    K = wk.estimate_kernel(KARATE, heat, n_walks=4)
    model = wk.NodeGPRegressor(KARATE, heat, n_walks=4, learn=None, normalize=False, method="walks")
    assert refusal(lambda: wk.Diffusion(-1.0)) == "Diffusion"
    assert refusal(lambda: wk.Graph.from_edges([(0, -1)])) == "Graph.from_edges"
    assert refusal(lambda: wk.estimate_kernel(KARATE, heat, n_walks=-1)) == "estimate_kernel"
    assert refusal(lambda: wk.sample_features(KARATE, 3, n_walks=4)) == "sample_features"
    assert refusal(lambda: wk.sample_walks(KARATE, n_walks=4).features(3)) == "Walks.features"
    assert refusal(lambda: K.entries([0], [99])) == "KernelOperator.entries"
    assert refusal(lambda: K @ np.ones(3)) == "KernelOperator"
    assert refusal(lambda: model.fit([0, 99], [1.0, 2.0])) == "NodeGPRegressor.fit"
    assert refusal(lambda: heat.set_params(sigma=-1.0)) == "Diffusion.set_params"


def test_a_refusal_has_that_name_through_other_packages():
    model = wk.NodeRidge(KARATE, wk.Diffusion(1.0), n_walks=-1, normalize=False, alpha=1.0, method="walks")
    search = make_pipeline(model)
    assert refusal(lambda: search.fit(NODES, TARGETS)) == "NodeRidge.fit"
    assert refusal(lambda: cross_val_score(model, NODES, TARGETS, error_score="raise")) == "NodeRidge.fit"


def test_functions_of_the_user_are_users():
    def source(t):
        return wk.estimate_kernel(KARATE, wk.Diffusion(1.0), n_walks=-1) @ np.ones(34)

    assert refusal(lambda: wk.solve_ode(KARATE, source, 1.0, n_walks=4)) == "estimate_kernel"


def test_commands_are_users():
    result = command("kernel", "karate", "--entry", "0", "1", "--kernel", "diffusion", "--tolerance", "3")
    assert "estimate_kernel: tolerance must be" in result.stderr
