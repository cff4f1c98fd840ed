"""Clusters of the nodes of a graph: what is found, the eigenvectors behind it, and graphs that are odd."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score as agreement

import graphs
import walkernel as wk
from data_sets import needs_data
from walkernel.datasets import stochastic_block_model
from walkernel.operators import leading_eigenvectors
from walkernel.operators._eigenvectors import ROUGH
from walkernel.tasks._eigenvectors import count_clusters, normalized_kernel

BRIDGED = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]
HALVES = [0, 0, 0, 1, 1, 1]


def cliques(sizes, n_nodes=None):
    starts = np.cumsum([0, *sizes])
    edges = [
        (a + i, a + j) for a, size in zip(starts, sizes, strict=False) for i in range(size) for j in range(i)
    ]
    return wk.Graph.from_edges(edges, n_nodes=n_nodes)


def spectral(graph, n_clusters, seed):
    """Eigenvectors of the normalized matrix, rows of length one, scikit-learn's k-means."""
    M = graph.to_scipy("normalized")
    _, V = scipy.sparse.linalg.eigsh(M, n_clusters, which="LA", v0=np.ones(graph.n_nodes))
    rows = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
    return KMeans(n_clusters, n_init=10, random_state=seed).fit(rows).labels_


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "self-loops", "isolated"])
@pytest.mark.parametrize("count", [5, 12, 100])
def test_eigenvectors_are_those_of_the_normalized_matrix(kind, count):
    graph = graphs.KINDS[kind]()
    M = graph.to_scipy("normalized").toarray()
    found = leading_eigenvectors(graph, count)
    vectors = np.hstack([found.components.toarray(), found.vectors])
    assert np.allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=ROUGH)
    assert np.abs(M @ found.vectors - found.vectors * found.values).max() < ROUGH
    n_isolated = int((graph.out_degrees() == 0).sum())
    known = np.append(np.ones(found.components.shape[1] - n_isolated), np.zeros(n_isolated))
    truth = np.sort(np.linalg.eigvalsh(M))[::-1]
    together = np.sort(np.append(known, found.values))[::-1]
    if found.values.size + known.size == graph.n_nodes:
        assert np.allclose(together, truth, atol=1e-5)
    else:
        largest = found.values.size + known.size - n_isolated
        assert np.allclose(together[:largest], truth[:largest], atol=1e-5)


def test_all_eigenvectors_are_the_normalized_kernel():
    graph, kernel = graphs.isolated(), wk.Matern(1.5, 1.0)
    K = wk.exact_kernel(graph, kernel)
    K /= np.sqrt(np.outer(np.diag(K), np.diag(K)))
    multiply = normalized_kernel(leading_eigenvectors(graph, 33), kernel, 33)
    assert np.allclose(multiply(np.eye(33)), K, atol=1e-10)


def test_large_graphs_have_the_eigenvectors_of_small_ones():
    """Lanczos in single precision beside all digits, on a graph with a thousand components."""
    blocks = stochastic_block_model((300, 200), 0.1, 0.01, seed=1000).graph.to_scipy()
    pairs = scipy.sparse.block_diag([[[0, 1], [1, 0]]] * 1000)
    graph = wk.Graph.from_scipy(scipy.sparse.block_diag([blocks, pairs]).tocsr())
    found = leading_eigenvectors(graph, 22)
    truth = np.linalg.eigvalsh(wk.Graph.from_scipy(blocks).to_scipy("normalized").toarray())[::-1]
    assert found.components.shape == (2500, 1001)
    assert np.allclose(found.values, truth[1:23], atol=1e-4)
    assert np.abs(found.vectors[500:]).max() < 1e-3
    assert agreement(np.arange(500) >= 300, wk.KernelKMeans(3).fit(graph).labels_[:500]) > 0.9


@pytest.mark.parametrize("method", ["auto", "polynomial", "walks"])
def test_blocks_of_unequal_size_are_found_by_every_method(method):
    blocks = stochastic_block_model((300, 150, 80), 0.12, 0.01, seed=1001)
    model = wk.KernelKMeans(3, kernel=wk.Diffusion(3.0), method=method).fit(blocks.graph)
    assert agreement(blocks.labels, model.labels_) > 0.9
    assert model.method_ == ("eigenvectors" if method == "auto" else method)
    assert (model.kernel_, model.n_clusters_) == (wk.Diffusion(3.0), 3)
    assert f"{blocks.graph.n_nodes} nodes into 3 clusters by Diffusion(sigma=3.0)" in str(model.explain())
    assert (model.explain().n_steps > 0) == (method == "walks")


@pytest.mark.parametrize("method", ["auto", "polynomial", "walks"])
def test_the_objective_is_that_of_the_normalized_kernel(method):
    graph, kernel = graphs.isolated(), wk.Diffusion(2.0)
    if method == "walks":
        K = wk.estimate_kernel(graph, kernel, seed=7, ensembles="shared").to_dense()
    else:
        K = wk.exact_kernel(graph, kernel)
    K = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    model = wk.KernelKMeans(4, kernel=kernel, method=method, random_state=7).fit(graph)
    clusters = [np.flatnonzero(model.labels_ == c) for c in range(4)]
    expected = sum(inside.size * (1 - K[np.ix_(inside, inside)].mean()) for inside in clusters)
    assert model.inertia_ == pytest.approx(expected, rel=2e-2 if method == "auto" else 1e-8)


def test_hubs_do_not_hide_blocks():
    """Degrees within a block differ by a factor of twenty; eigenvectors alone take hubs for clusters."""
    rng = np.random.default_rng(1000)
    truth = np.repeat(np.arange(4), (800, 400, 200, 100))
    weights = np.minimum(rng.pareto(2.5, truth.size) + 1, 20)
    ends = rng.choice(truth.size, 6_000, p=weights / weights.sum())
    others = rng.choice(truth.size, ends.size, p=weights / weights.sum())
    for c in range(4):
        own, inside = truth == c, (truth[ends] == c) & (rng.random(ends.size) < 0.7)
        others[inside] = rng.choice(np.flatnonzero(own), inside.sum(), p=weights[own] / weights[own].sum())
    graph = wk.Graph.from_edges(np.column_stack([ends, others])[ends != others], n_nodes=truth.size)
    ours = np.mean(
        [agreement(truth, wk.KernelKMeans(4, random_state=s).fit(graph).labels_) for s in range(3)]
    )
    theirs = np.mean([agreement(truth, spectral(graph, 4, s)) for s in range(3)])
    assert ours > theirs + 0.05


def test_results_repeat_and_do_not_depend_on_the_engine(monkeypatch):
    graph = graphs.karate()
    labels = wk.KernelKMeans(3, random_state=4).fit(graph).labels_
    for engine in (None, "cpu", wk.engines.CPU(2)):
        assert np.array_equal(wk.KernelKMeans(3, random_state=4, engine=engine).fit(graph).labels_, labels)
    monkeypatch.setenv("WALKERNEL_ENGINE", "cuda")
    assert np.array_equal(wk.KernelKMeans(3, random_state=4).fit(graph).labels_, labels)


@pytest.mark.parametrize("method", ["auto", "polynomial", "walks"])
def test_components_are_clusters(method):
    model = wk.KernelKMeans(3, method=method).fit(cliques([10, 12, 9]))
    assert wk.clustering_error(model.labels_, np.repeat([0, 1, 2], [10, 12, 9])) == 0


@pytest.mark.parametrize("method", ["auto", "polynomial"])
@pytest.mark.parametrize("sigma", [5.0, 50.0])
def test_nodes_without_edges_join_one_cluster(method, sigma):
    """Those of a wide kernel have K_ii = e^-1250, which is zero."""
    model = wk.KernelKMeans(2, kernel=wk.Diffusion(sigma), method=method).fit(cliques([10, 10], n_nodes=23))
    assert wk.clustering_error(model.labels_[:20], np.repeat([0, 1], 10)) == 0
    assert np.unique(model.labels_[20:]).size == 1


def test_a_directed_graph_is_clustered_as_an_undirected_one():
    one = wk.Graph.from_edges(BRIDGED, directed=True)
    both = wk.Graph.from_edges(BRIDGED)
    for method in ("auto", "polynomial", "walks"):
        models = [wk.KernelKMeans(2, method=method).fit(graph) for graph in (one, both)]
        assert np.array_equal(models[0].labels_, models[1].labels_)
        assert wk.clustering_error(models[0].labels_, HALVES) == 0
    assert "directed: it is treated as the undirected one with the matrix A + Aᵀ" in str(models[0].explain())
    assert "directed" not in str(models[1].explain())


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
def test_weights_count_and_their_unit_does_not(unit):
    square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    graph = wk.Graph.from_edges(square, weights=np.array([9.0, 1.0, 9.0, 1.0]) * unit)
    labels = wk.KernelKMeans(2).fit(graph).labels_
    assert wk.clustering_error(labels, [0, 0, 1, 1]) == 0


def test_negative_weights_and_other_kernels_take_the_polynomial():
    signed = wk.Graph.from_edges(BRIDGED, weights=[1, 1, 1, 1, 1, 1, -0.5])
    model = wk.KernelKMeans(2).fit(signed)
    assert (model.method_, wk.clustering_error(model.labels_, HALVES)) == ("polynomial", 0)
    assert "some weights are negative" in str(model.explain())
    graph = wk.Graph.from_edges(BRIDGED)
    other = wk.KernelKMeans(2, kernel=wk.Diffusion(1.0, matrix="combinatorial")).fit(graph)
    assert (other.method_, wk.clustering_error(other.labels_, HALVES)) == ("polynomial", 0)
    falling = wk.KernelKMeans(2, kernel=wk.PowerSeries([1.0, -0.5])).fit(graph)
    assert falling.method_ == "polynomial"
    assert "does not increase with the eigenvalues" in str(falling.explain())
    for kernel in (wk.InverseCosine(), wk.PStepRandomWalk(), wk.Matern(), wk.RegularizedLaplacian()):
        assert wk.KernelKMeans(2, kernel=kernel).fit(graph).method_ == "eigenvectors"


def test_polynomials_on_large_graphs_are_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr("walkernel.operators._polynomial.MAX_DIAGONAL", 1000)
    with pytest.raises(ValueError, match=r"small enough for all K_ii .* got 34 nodes. Use method='walks'"):
        wk.KernelKMeans(2, method="polynomial").fit(graphs.karate())


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 6])
def test_any_number_of_clusters_up_to_the_nodes(n_clusters):
    labels = wk.KernelKMeans(n_clusters).fit(wk.Graph.from_edges(BRIDGED)).labels_
    assert np.array_equal(np.unique(labels), np.arange(n_clusters))


@pytest.mark.parametrize(
    ("sizes", "p", "q"),
    [((200, 200, 200, 200), 0.1, 0.01), ((400, 200, 100), 0.1, 0.01), ((150,) * 6, 0.2, 0.01)],
)
def test_the_number_of_clusters_is_that_of_the_blocks(sizes, p, q):
    for seed in range(1000, 1003):
        blocks = stochastic_block_model(sizes, p, q, seed=seed)
        model = wk.KernelKMeans(None).fit(blocks.graph)
        assert model.n_clusters_ == len(sizes) == np.unique(model.labels_).size
        assert agreement(blocks.labels, model.labels_) > 0.9
        assert f"after {len(sizes)} of them" in str(model.explain())


def test_the_number_of_clusters_counts_large_components():
    graph = cliques([20, 24, 18, 2, 1], n_nodes=70)
    assert count_clusters(leading_eigenvectors(graph, 50))[0] == 3
    assert wk.KernelKMeans(None).fit(graph).n_clusters_ == 3
    for edges, n in (([], 1), ([(0, 1)], 2)):
        assert wk.KernelKMeans(None).fit(wk.Graph.from_edges(edges, n_nodes=n)).n_clusters_ == 1


def test_weights_and_first_labels_are_used():
    graph = graphs.karate()
    first = np.arange(34) % 2
    started = wk.KernelKMeans(2, init=first, max_iter=300).fit(graph)
    assert started.objectives_[0] > started.inertia_
    weights = np.append(np.ones(33), 100.0)
    heavy = wk.KernelKMeans(2, init=first).fit(graph, sample_weight=weights)
    assert heavy.objectives_[0] != started.objectives_[0]


def test_parameters_are_cloned_and_those_of_the_kernel_set():
    model = wk.KernelKMeans(2, kernel=wk.Diffusion(2.0), method="walks", engine="cpu")
    copy = clone(model).set_params(kernel__sigma=3.0, n_init=2)
    assert (copy.kernel, copy.method, copy.n_init, model.kernel) == (
        wk.Diffusion(3.0),
        "walks",
        2,
        wk.Diffusion(2.0),
    )
    with pytest.raises(TypeError, match="kernel must be a Kernel, got None"):
        wk.KernelKMeans(2).set_params(kernel__sigma=3.0)


def test_operators_and_features_are_explained():
    K = wk.polynomial_operator(graphs.karate(), wk.Diffusion(2.0))
    model = wk.KernelKMeans(2).fit(K)
    assert (model.kernel_, model.method_, model.n_clusters_) == (None, None, 2)
    assert "into 2 clusters by KernelOperator(34x34, Chebyshev" in str(model.explain())
    model.fit(np.random.default_rng(0).normal(size=(9, 2)))
    assert str(model.explain()) == "k-means of 9 points with 2 features into 2 clusters."


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_data) for name in ("cora", "citeseer", "pubmed")]
)
def test_citation_graphs_are_clustered_as_well_as_by_spectral_embedding(name):
    data = wk.load_dataset(name)
    truth = np.asarray(data.labels)
    known = truth >= 0
    k = np.unique(truth[known]).size
    ours, theirs = [], []
    for seed in range(5):
        ours.append(
            agreement(truth[known], wk.KernelKMeans(k, random_state=seed).fit(data.graph).labels_[known])
        )
        theirs.append(agreement(truth[known], spectral(data.graph, k, seed)[known]))
    assert np.mean(ours) > np.mean(theirs) + 0.05
