"""Kernel k-means: the objective it states, that it never rises, that no cluster is empty; and E_c."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import graphs
import walkernel as wk
from data_sets import needs_data
from walkernel.tasks._lloyd import Points, fill_empty, lloyd

SMOOTH = wk.Diffusion(2.0)
OPERATORS = {
    "shared": lambda: wk.estimate_kernel(graphs.karate(), SMOOTH, 32, ensembles="shared"),
    "debiased": lambda: wk.estimate_kernel(graphs.karate(), SMOOTH, 32, ensembles="debiased"),
    "independent": lambda: wk.estimate_kernel(graphs.karate(), SMOOTH, 32, ensembles="independent"),
    "lazy": lambda: wk.estimate_kernel(graphs.karate(), wk.InverseCosine(), 32),
    "directed": lambda: wk.estimate_kernel(graphs.directed(), SMOOTH, 32),
    "polynomial": lambda: wk.polynomial_operator(graphs.karate(), SMOOTH),
}


def objective(K, labels, weights):
    """Σ_c Σ_{i∈c} w_i ‖φ_i − m_c‖², from the dense kernel and by the definition."""
    total = 0.0
    for c in np.unique(labels):
        inside = np.flatnonzero(labels == c)
        share = weights[inside] / weights[inside].sum()
        block = K[np.ix_(inside, inside)]
        total += weights[inside] @ (np.diag(block) - 2 * block @ share + share @ block @ share)
    return total


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("start", ["k-means++", "labels"])
def test_the_objective_is_the_definition_and_never_rises(name, start):
    K = OPERATORS[name]()
    n = K.shape[0]
    rng = np.random.default_rng(0)
    weights = rng.random(n)
    for seed in range(10):
        init = start if start == "k-means++" else rng.permutation(np.arange(n) % 4)
        model = wk.KernelKMeans(4, init=init, n_init=2, random_state=seed).fit(K, sample_weight=weights)
        assert (np.diff(model.objectives_) <= 0).all()
        assert np.array_equal(np.unique(model.labels_), np.arange(4))
        dense = K.to_dense()
        assert model.inertia_ == pytest.approx(objective((dense + dense.T) / 2, model.labels_, weights))
        assert model.n_iter_ == len(model.objectives_) - 1


def test_an_indefinite_kernel_would_rise_if_it_were_let():
    """Plain alternation on indefinite kernels raises the objective in some runs; ours ends before."""
    rng = np.random.default_rng(1)
    rose = 0
    for _ in range(40):
        A = rng.normal(size=(12, 12))
        A = A + A.T
        points = Points(lambda Z, A=A: A @ Z, np.diag(A).copy(), np.ones(12), 3)
        labels = np.arange(12) % 3
        plain, objectives = labels, []
        for _ in range(10):
            distances = points.distances(plain)
            objectives.append(points.objective(plain, distances))
            plain = distances.argmin(axis=1)
            fill_empty(plain, np.zeros(12), points)
        rose += bool((np.diff(objectives) > 1e-9).any())
        assert (np.diff(lloyd(points, labels, 50).objectives) <= 0).all()
    assert rose > 10


def test_empty_clusters_are_filled():
    labels = np.array([0, 0, 0, 2, 2])
    fill_empty(labels, np.array([1.0, 5.0, 2.0, 9.0, 0.0]), Points(None, None, np.ones(5), 5))
    assert labels.tolist() == [0, 3, 4, 1, 2]


def test_an_asymmetric_kernel_is_clustered_as_its_transpose():
    K = wk.estimate_kernel(graphs.directed(), SMOOTH, 64)
    one, two = (wk.KernelKMeans(3, random_state=1).fit(each) for each in (K, K.T))
    assert np.array_equal(one.labels_, two.labels_)
    assert one.inertia_ == pytest.approx(two.inertia_, rel=1e-12)


def test_parts_of_a_graph_are_clusters():
    graph = wk.Graph.from_edges(
        [(i + 10 * c, j + 10 * c) for c in range(3) for i in range(10) for j in range(i)]
    )
    K = wk.polynomial_operator(graph, SMOOTH)
    assert wk.clustering_error(wk.KernelKMeans(3).fit(K).labels_, np.arange(30) // 10) == 0.0


def test_fewer_distinct_points_than_clusters():
    features = np.repeat(np.eye(2), 5, axis=0)
    model = wk.KernelKMeans(4, n_init=1).fit(features)
    assert np.array_equal(np.unique(model.labels_), np.arange(4))
    assert model.inertia_ == pytest.approx(0.0)
    assert np.array_equal(np.unique(wk.KernelKMeans(10).fit(features).labels_), np.arange(10))


def test_blocks_are_found_although_the_kernel_is_local():
    """Nodes of a large graph share nothing with any centre: labels must grow from the centres."""
    from walkernel.datasets import stochastic_block_model

    blocks = stochastic_block_model((1500, 1500, 1500), 0.008, 0.0004, seed=1)
    K = wk.estimate_kernel(blocks.graph, wk.Diffusion(2.0), 32)
    model = wk.KernelKMeans(3, n_init=3).fit(K)
    assert wk.clustering_error(model.labels_, blocks.labels) < 0.02


def test_stopping_early_is_said():
    K = wk.polynomial_operator(graphs.karate(), wk.Diffusion(2.0))
    with pytest.warns(ConvergenceWarning, match="labels still change after max_iter=1"):
        wk.KernelKMeans(3, init=np.arange(34) % 3, max_iter=1).fit(K)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("karate", 0.03),
        pytest.param("dolphins", 0.03, marks=needs_data),
        pytest.param("football", 0.05, marks=needs_data),
    ],
)
def test_estimated_and_exact_kernels_cluster_alike(name, limit):
    """Sec. 3.3: exp(0.2 A), three clusters, 80 walks, both from the labels of one k-means++."""
    graph = wk.load_dataset(name).graph
    kernel = wk.PowerSeries.from_function(lambda x: np.exp(0.2 * x), matrix="adjacency")
    exact = wk.polynomial_operator(graph, kernel)
    errors = []
    for seed in range(5):
        init = wk.KernelKMeans(3, n_init=1, random_state=seed).fit(exact).labels_
        estimate = wk.estimate_kernel(graph, kernel, 80, seed=seed, sampler=wk.IndependentWalks(0.1))
        errors.append(wk.clustering_error(init, wk.KernelKMeans(3, init=init).fit(estimate).labels_))
    assert np.mean(errors) < limit


def test_clustering_error_counts_pairs():
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 40):
        a, b = rng.integers(0, 4, (2, n))
        wrong = [(a[i] == a[j]) != (b[i] == b[j]) for i, j in itertools.combinations(range(n), 2)]
        assert wk.clustering_error(a, b) == pytest.approx(np.mean(wrong))
    assert wk.clustering_error(["x", "y", "x"], [1, 0, 1]) == 0.0
    assert wk.clustering_error([1, "1", 2, (0, 1)], [1, 2, 3, 4]) == 0.0


def test_clustering_error_is_linear_in_the_nodes():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 50, 1_000_000)
    assert wk.clustering_error(a, (a + 7) % 50) == 0.0
    assert wk.clustering_error(a, rng.permutation(a)) == pytest.approx(2 / 50 * 49 / 50, rel=0.01)


@pytest.mark.parametrize("n_clusters", [2, 4])
def test_clusters_of_features_and_of_their_kernel_are_those_of_scikit_learn(n_clusters):
    graph = graphs.karate()
    features = wk.sample_features(graph, SMOOTH, 256)
    operator = wk.estimate_kernel(graph, SMOOTH, 256, sampler=wk.IndependentWalks(), ensembles="shared")
    labels = np.arange(graph.n_nodes) % n_clusters
    centres = np.array([features.toarray()[labels == c].mean(axis=0) for c in range(n_clusters)])
    theirs = KMeans(n_clusters, init=centres, n_init=1, tol=0).fit(features.toarray())
    assert not np.array_equal(theirs.labels_, labels)
    for X in (features.toarray(), features, scipy.sparse.csc_matrix(features), operator):
        ours = wk.KernelKMeans(n_clusters, init=labels).fit(X)
        assert np.array_equal(ours.labels_, theirs.labels_)
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-9)


def test_clusters_do_not_depend_on_the_origin_of_dense_features():
    features = np.random.default_rng(1).normal(size=(12, 3))
    near, far = (wk.KernelKMeans(2).fit(features + offset) for offset in (0.0, 1e8))
    assert wk.clustering_error(near.labels_, far.labels_) == 0
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-3)
