"""Functions of D⁻¹A are not symmetric: every door serves them rightly, or refuses them in one sentence."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from commands import call

X = list(range(0, 30, 2))
Y = np.sin(np.arange(15.0))
LABELS = np.arange(15) % 2
KERNELS = (wk.PageRank(0.5), wk.Diffusion(1.0, matrix="random-walk"))
GRAPHS = {"undirected": graphs.weighted(), "directed": graphs.directed()}

every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=["PageRank", "Diffusion"])


def operators(graph, kernel):
    yield wk.polynomial_operator(graph, kernel)
    yield wk.polynomial_operator(graph, kernel).T
    yield wk.estimate_kernel(graph, kernel, 16)
    yield wk.estimate_kernel(graph, kernel, 16, pair="lazy")
    yield wk.estimate_kernel(graph, 1.0 * kernel + kernel, 16)
    yield wk.estimate_kernel(graph, wk.Diffusion(1.0, matrix="random-walk"), 16, stitches=2)


REFUSED = {
    "NodeGPRegressor": lambda graph, kernel, **how: wk.NodeGPRegressor(graph, kernel, **how).fit(X, Y),
    "NodeGPRegressor()": lambda graph, kernel, **how: wk.NodeGPRegressor(graph, kernel, learn=(), **how).fit(
        X, Y
    ),
    "NodeGPClassifier": lambda graph, kernel, **how: wk.NodeGPClassifier(graph, kernel, **how).fit(X, LABELS),
    "NodeRidge": lambda graph, kernel, **how: wk.NodeRidge(graph, kernel, **how).fit(X, Y),
    "NodeRidgeClassifier": lambda graph, kernel, **how: wk.NodeRidgeClassifier(graph, kernel, **how).fit(
        X, LABELS
    ),
    "KernelKMeans": lambda graph, kernel, **how: wk.KernelKMeans(2, kernel=kernel, **how).fit(graph),
}


@every_graph
@every_kernel
@pytest.mark.parametrize("method", ["auto", "polynomial", "walks"])
@pytest.mark.parametrize("door", REFUSED)
def test_estimators_that_need_a_symmetric_kernel_refuse(door, method, graph, kernel):
    owner, got = door.strip("()"), type(kernel).__name__
    rule = rf"^{owner}.fit: kernel must be symmetric, got {got}\(.*Use matrix='normalized'\.$"
    with pytest.raises(ValueError, match=rule):
        REFUSED[door](graph, kernel, method=method)


@every_graph
@every_kernel
def test_operators_are_refused_where_a_covariance_is_needed(graph, kernel):
    for K in operators(graph, kernel):
        with pytest.raises(
            ValueError, match=r"^KernelKMeans.fit: X must be symmetric, .*matrix='normalized'\.$"
        ):
            wk.KernelKMeans(2).fit(K)
        with pytest.raises(ValueError, match=r"^gp_posterior: K must be symmetric, .*matrix='normalized'\.$"):
            wk.gp_posterior(K, X, Y, [1], noise=0.1)


@every_graph
@every_kernel
def test_covariances_of_gpytorch_are_refused(graph, kernel):
    pytest.importorskip("gpytorch")
    from walkernel.torch import FreeModulation, GRFKernel

    rule = r"^GRFKernel: kernel must be symmetric, .*matrix='normalized'\.$"
    with pytest.raises(ValueError, match=rule):
        GRFKernel(graph, kernel, n_walks=4)
    with pytest.raises(ValueError, match=rule):
        GRFKernel(graph, FreeModulation([1.0, 0.5]), n_walks=4, matrix="random-walk")


def test_equations_have_their_own_matrices():
    with pytest.raises(
        ValueError, match=r"solve_ode: matrix must be one of .*'normalized'.* got 'random-walk'"
    ):
        wk.solve_ode(GRAPHS["undirected"], None, [1.0], initial=np.ones(30), matrix="random-walk")


@every_graph
@every_kernel
def test_a_smoother_averages_over_rows_of_the_kernel(graph, kernel):
    K = wk.exact_kernel(graph, kernel)
    smoother = wk.NodeSmoother(graph, kernel, n_walks=512).fit(X, Y)
    value, stderr = smoother.predict(range(30), return_std=True)

    def holds(weights):
        return np.all(np.abs(value - weights @ Y / weights.sum(axis=1)) <= 6 * stderr + 1e-9)

    assert smoother.method_ == "walks"
    assert holds(K[:, X])
    assert not holds(K.T[:, X] + 1e-300)
    assert "Polynomials do not serve this kernel or graph" in smoother.explain().text


@every_graph
@every_kernel
def test_features_estimate_the_root_of_the_kernel(graph, kernel):
    """Of D⁻¹A, as it is: rows of Φ are those of Ψ with Ψ² = K, and ΦΦᵀ is not K."""
    P, root, power = graph.to_scipy("random-walk").toarray(), 0.0, np.eye(30)
    for f in kernel.modulation(60):
        root, power = root + f * power, power @ P
    assert np.allclose(root @ root, wk.exact_kernel(graph, kernel), atol=1e-9)
    model = wk.NodeFeatures(graph, kernel, n_walks=2048, normalize=False).fit(X)
    assert model.method_ == "walks"
    features = model.transform(range(30)).toarray()
    assert np.abs(features - root).max() < 0.006
    assert np.abs(features - root.T).max() > 0.04
    assert "relative error" in model.explain().text
    lengths = np.linalg.norm(wk.NodeFeatures(graph, kernel).fit_transform(X).toarray(), axis=1)
    assert np.allclose(lengths, 1)


@every_graph
@every_kernel
def test_learned_modulations_are_of_walks_on_both_sides(graph, kernel):
    """The closed form and walks agree on the error of the pair (Ψ, Ψᵀ), which is small for many walks."""
    wt = pytest.importorskip("walkernel.torch")
    sampler, exact = wk.IndependentWalks(0.3), wt.FreeModulation(kernel.modulation(40))
    found = wt.held_out_errors(graph, kernel, exact, n_walks=64, sampler=sampler, n_samples=40)
    closed = wt.ExpectedError(graph, kernel, 64, sampler, 40)(exact).item()
    assert abs(found.unbiased - closed) <= 4 * found.unbiased_stderr
    assert found.ratio == pytest.approx(1, abs=1e-3)
    assert closed < 0.05


def test_learning_for_a_task_takes_two_sets_of_walks():
    wt = pytest.importorskip("walkernel.torch")
    options = {"loss": wt.squared_loss, "matrix": "random-walk", "schedule": wt.Schedule(n_epochs=2)}
    for graph in GRAPHS.values():
        fit = wt.fit_to_task(graph, X, Y, **options)
        assert fit.kernel.matrix == "random-walk"
        with pytest.raises(ValueError, match=r"fit_to_task: ensembles must be 'independent' for"):
            wt.fit_to_task(graph, X, Y, ensembles="shared", **options)


@pytest.mark.parametrize("command", ["regress", "classify", "cluster"])
def test_commands_pass_the_refusal_on(command, tmp_path):
    (tmp_path / "values.csv").write_text("node,value\n0,1\n1,2\n33,1\n32,2\n")
    values = [] if command == "cluster" else [tmp_path / "values.csv"]
    more = ["-k", 2] if command == "cluster" else []
    result = call(command, "karate", *values, "--kernel", "pagerank", *more)
    assert result.exit_code == 1
    assert "kernel must be symmetric, got PageRank(damping=0.85)" in result.stderr
    assert "matrix='normalized'" in result.stderr
