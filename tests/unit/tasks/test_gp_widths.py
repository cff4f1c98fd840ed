"""The lengthscale that is learned does not depend on the start."""

import linecache
import warnings

import networkx as nx
import numpy as np
import pytest

import walkernel as wk
from walkernel.datasets import grid
from walkernel.features._variance import Modulated
from walkernel.features._weights import Symmetric
from walkernel.planning._sampler import served_kernels, widest_served
from walkernel.tasks._likelihood import Hyperparameters, Parameters, scale_likelihood_at
from walkernel.tasks._observations import Observations

FAR = (0.01, 0.1, 10.0, 100.0)
"""Starts, as factors of the lengthscale that is found."""


def lognormal_graph():
    edges = np.array(nx.gnm_random_graph(200, 800, seed=3).edges())
    return wk.Graph.from_edges(edges, weights=np.random.default_rng(0).lognormal(size=len(edges)))


GRAPHS = {
    "grid": lambda: grid(15, 15).graph,
    "ring": lambda: wk.Graph.from_networkx(nx.cycle_graph(200)),
    "tree": lambda: wk.Graph.from_networkx(nx.random_labeled_tree(200, seed=1)),
    "hubs": lambda: wk.Graph.from_networkx(nx.barabasi_albert_graph(200, 3, seed=1)),
    "random": lambda: wk.Graph.from_networkx(nx.gnm_random_graph(200, 800, seed=2)),
    "weighted": lognormal_graph,
    "blocks": lambda: wk.Graph.from_networkx(nx.planted_partition_graph(4, 50, 0.2, 0.01, seed=1)),
}
KERNELS = (wk.Matern(1.5, 6.0), wk.Diffusion(3.0), wk.RegularizedLaplacian(1, 3.0))


def observed(graph, kernel, n=60, noise=0.3, seed=0):
    """Return some nodes, and noisy values there of a function with that covariance."""
    rng = np.random.default_rng(seed)
    K = wk.exact_kernel(graph, kernel)
    roots, vectors = np.linalg.eigh(K / K.diagonal().mean())
    root = (vectors * np.sqrt(np.maximum(roots, 0))) @ vectors.T  # the same for any choice of eigenvectors
    g = root @ rng.standard_normal(graph.n_nodes)
    X = rng.permutation(graph.n_nodes)[:n]
    return X, (g + noise * rng.standard_normal(graph.n_nodes))[X]


def fitted(graph, kernel, X, y, n_walks=32, estimator=wk.NodeGPRegressor, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is wider than a search by walks can afford")
        warnings.filterwarnings("ignore", ".* the likelihood still grows with the lengthscale")
        options = {"method": "walks", "normalize": False, **options}
        return estimator(graph, kernel, n_walks=n_walks, **options).fit(X, y)


def assert_same_from_far_off(graph, kernel, X, y, factors=FAR, **options):
    """The same maximum, and the same walks."""
    near = fitted(graph, kernel, X, y, **options)
    for factor in factors:
        far = fitted(graph, kernel.with_lengthscale(factor * near.kernel_.lengthscale), X, y, **options)
        assert far.log_marginal_likelihood_value_ == pytest.approx(
            near.log_marginal_likelihood_value_, abs=0.01
        )
        assert far.kernel_.lengthscale == pytest.approx(near.kernel_.lengthscale, rel=0.01)
        assert far.sampler_ == near.sampler_


@pytest.mark.parametrize("graph", ["grid", "ring", "hubs", "weighted", "blocks"])
def test_any_start_finds_the_same_maximum(graph):
    graph = GRAPHS[graph]()
    X, y = observed(graph, KERNELS[0])
    assert_same_from_far_off(graph, KERNELS[0], X, y, (0.01, 100.0))


@pytest.mark.deep
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("graph", GRAPHS)
def test_any_start_finds_the_same_maximum_on_any_graph(graph, kernel):
    graph = GRAPHS[graph]()
    X, y = observed(graph, kernel, n=100, seed=1)
    assert_same_from_far_off(graph, kernel, X, y, n_walks=128)


@pytest.mark.parametrize(
    "options",
    [
        {"learn": ("lengthscale",)},
        {"learn": ("lengthscale", "amplitude"), "noise": 0.3},
        {"learn": ("lengthscale", "amplitude", "noise", "nugget")},
        {"normalize": True},
    ],
    ids=str,
)
def test_any_start_finds_the_same_maximum_of_part_of_the_parameters(options):
    graph = GRAPHS["grid"]()
    X, y = observed(graph, wk.Diffusion(3.0))
    assert_same_from_far_off(graph, wk.Diffusion(3.0), X, y, (0.03, 30.0), **options)


def test_any_start_of_a_classifier_finds_the_same_maximum():
    graph = GRAPHS["blocks"]()
    X = np.random.default_rng(0).permutation(200)[:60]
    assert_same_from_far_off(
        graph, wk.Diffusion(2.0), X, X // 50, (0.03, 30.0), estimator=wk.NodeGPClassifier
    )  # fmt: skip


def test_the_maximum_is_the_best_of_all_widths():
    """κ = 7.7 has a radius of convergence of 1.05, beyond which nothing was tried once."""
    graph = grid(30, 30).graph
    X, y = observed(graph, wk.Matern(1.5, 12.0), n=150, seed=3)
    model = fitted(graph, wk.Matern(1.5, 1.0), X, y, n_walks=128)
    assert 10 < model.kernel_.kappa < 40
    for kappa in (2.0, 7.7):  # beyond 12 the exact likelihood hardly changes
        fixed = fitted(graph, wk.Matern(1.5, kappa), X, y, n_walks=128, learn=("amplitude", "noise"))
        assert fixed.log_marginal_likelihood_value_ < model.log_marginal_likelihood_value_


def test_observations_far_apart_are_seen_by_wide_kernels_only():
    """Kernels that reach no other observed node are all as likely; the search goes on to those that do."""
    ring = wk.Graph.from_networkx(nx.cycle_graph(600))
    X = np.arange(0, 600, 20)
    y = np.sin(2 * np.pi * X / 300) + 0.05 * np.random.default_rng(0).standard_normal(X.size)
    model = fitted(ring, wk.Diffusion(0.5), X, y)
    assert model.kernel_.sigma > 15
    assert abs(model.predict([75, 225]) - [1.0, -1.0]).max() < 0.3


@pytest.mark.parametrize("estimator", [wk.NodeGPRegressor, wk.NodeGPClassifier])
def test_a_start_too_wide_is_narrowed_with_a_word(estimator):
    graph = GRAPHS["grid"]()
    widest = wk.Matern(1.5, widest_served(graph, wk.Matern(1.5, 1.0)))
    with pytest.warns(UserWarning, match="is wider than a search") as caught:
        estimator(graph, wk.Matern(1.5, 1e4), n_walks=16, method="walks").fit(range(10), [0, 1] * 5)
    assert str(caught[0].message) == (
        f"{estimator.__name__}.fit: Matern(nu=1.5, kappa=10000.0) is wider than a search by walks can "
        f"afford. The lengthscale is learned among those up to {widest}."
    )
    assert ".fit(" in linecache.getline(caught[0].filename, caught[0].lineno)


def test_the_widest_kernel_is_one_that_converges():
    graph = grid(12, 12).graph
    limit = 1 / np.sqrt(1.05 * np.linalg.eigvalsh(graph.to_scipy().toarray()).max() - 1)
    kernel = wk.RegularizedLaplacian(1, 0.53, matrix="adjacency")
    assert widest_served(graph, kernel) == pytest.approx(limit, rel=0.011)
    assert widest_served(graph, kernel) == widest_served(graph, kernel.with_lengthscale(1e-3))
    factors = [one.sigma / 0.53 for one in served_kernels(graph, kernel, ("lengthscale",))]
    assert factors == pytest.approx([1 / 8, 1.0, limit / 0.53], rel=0.011)


def test_the_widest_kernel_has_terms_that_can_be_squared():
    """On an adjacency matrix the heat kernel grows with its width, beyond all numbers: that is no warning."""
    graph, kernel = wk.load_dataset("karate").graph, wk.Diffusion(1.0, matrix="adjacency")
    widest = kernel.with_lengthscale(widest_served(graph, kernel))
    total = Modulated.of(graph, Symmetric(widest)).sizes("weights").sum()
    assert 1e68 < total < 1e70


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_widest_kernel_has_a_sequence_that_ends(kernel):
    """At most a millionth of Σ|f| lies beyond 2**13 lengths; of one a tenth wider more does."""
    widest = widest_served(GRAPHS["ring"](), kernel)
    for factor, ends in ((1.0, True), (1.1, False)):
        f = kernel.with_lengthscale(factor * widest).modulation(2**15)
        assert (f[2**13 :].sum() < 1e-6 * f.sum()) is np.bool_(ends)


@pytest.mark.parametrize("names", [("amplitude", "noise"), ("nugget", "noise", "amplitude")], ids=str)
def test_the_gradient_for_a_fixed_kernel_is_the_slope_of_the_likelihood(names):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 12, 20)
    data = [Observations.at(ids, rng.standard_normal(20), np.ones((20, 1)), 0.1 * rng.random(20))]
    half = rng.standard_normal((data[0].ids.size, 12))
    parameters = Parameters(names, Hyperparameters(wk.Diffusion(1.0), 0.7, 0.4, nugget=0.3))
    theta = parameters.theta(parameters.start)

    def value(theta):
        return scale_likelihood_at(theta, parameters, half @ half.T, data)[0]

    gradient = scale_likelihood_at(theta, parameters, half @ half.T, data)[1]
    steps = 1e-5 * np.eye(theta.size)
    slopes = [(value(theta + step) - value(theta - step)) / 2e-5 for step in steps]
    assert gradient == pytest.approx(slopes, rel=1e-6, abs=1e-6)
