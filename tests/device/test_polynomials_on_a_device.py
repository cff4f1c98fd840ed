"""Polynomials of a matrix whose products are made on a device are those of the CPU."""

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from walkernel.engines import CUDA
from walkernel.engines._device_features import DeviceFeatures
from walkernel.operators import ChebyshevBasis, _chebyshev
from walkernel.tasks import WALK_CACHE

KERNELS = {
    "diffusion": wk.Diffusion(2.0),
    "matern": wk.Matern(1.5, 2.0, matrix="combinatorial"),
    "series": wk.PowerSeries([0.5, 0.2, 0.1], matrix="adjacency"),
    "pagerank": wk.PageRank(0.7),
}


@pytest.fixture(params=["weighted", "directed", "isolated"])
def graph(request):
    return graphs.KINDS[request.param]()


@pytest.mark.parametrize("name", KERNELS)
def test_products_and_rows(graph, name, device):
    kernel, V = KERNELS[name], np.random.default_rng(0).normal(size=(graph.n_nodes, 3))
    if name == "matern" and graph.directed:
        pytest.skip("the series of a directed graph may diverge")
    here, there = (wk.polynomial_operator(graph, kernel, engine=each) for each in (CUDA(device), None))
    for one, other in ((here, there), (here.T, there.T)):
        np.testing.assert_allclose(one @ V, other @ V, rtol=0, atol=1e-13)
        np.testing.assert_allclose(one @ V[:, 0], other @ V[:, 0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(one @ V[::-1, ::-1], other @ V[::-1, ::-1], rtol=0, atol=1e-13)
    nodes = graph.names(np.array([3, 0]))
    np.testing.assert_allclose(here.rows(nodes), there.rows(nodes), rtol=0, atol=1e-13)
    np.testing.assert_allclose(here.diagonal(), there.diagonal(), rtol=0, atol=1e-13)
    assert here.explain().text == there.explain().text


def test_tensors_give_tensors_of_their_kind(device):
    graph = graphs.weighted()
    K, v = wk.polynomial_operator(graph, wk.Diffusion(2.0), engine=CUDA(device)), torch.arange(30.0)
    expected = wk.polynomial_operator(graph, wk.Diffusion(2.0)) @ v.double().numpy()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        product = K @ v.to(device, dtype)
        assert (product.dtype, product.device.type) == (dtype, device)
        np.testing.assert_allclose(product.cpu(), expected, rtol=tolerance)
    assert isinstance(K @ v.numpy(), np.ndarray)


def test_loads_of_single_precision_do_not_round_polynomials(device):
    """The twin that fails for walks: the certificate of ten digits holds on any engine."""
    graph, kernel = graphs.weighted(), wk.Diffusion(3.0)
    found = wk.polynomial_operator(graph, kernel, engine=CUDA(device, "float32")).to_dense()
    assert np.abs(found - wk.exact_kernel(graph, kernel)).max() < 1e-10


@pytest.mark.parametrize("matrix", ["normalized", "combinatorial"])
def test_chebyshev_polynomials(matrix, device, monkeypatch):
    """Blocks, products and moments, whose columns are made in several parts."""
    monkeypatch.setattr(_chebyshev, "DEVICE_BLOCK", 32)
    graph, terms = graphs.weighted(), np.array([0.5, 0.0, 0.25, 0.125])
    here, there = (ChebyshevBasis(graph, matrix, engine) for engine in (CUDA(device), None))
    every = np.arange(graph.n_nodes)
    V = np.random.default_rng(1).normal(size=(graph.n_nodes, 40))
    states = {}
    for one, other in (
        (here.product(terms, V), there.product(terms, V)),
        (here.block(terms, every, every[:3]), there.block(terms, every, every[:3])),
        (here.moments(every[::2], 9), there.moments(every[::2], 9)),
        (here.moments(every[::2], 5, states), there.moments(every[::2], 5)),
        (here.moments(every[::2], 9, states, 5), there.moments(every[::2], 9)[5:]),
        (here.moments(every[:2], 1), there.moments(every[:2], 1)),
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


def fitted(kind, graph, engine):
    known = np.arange(0, graph.n_nodes, 3)
    y = np.sin(np.arange(graph.n_nodes) / 3)[known]
    labels = y > np.median(y)
    if kind == "regressor":
        model = wk.NodeGPRegressor(graph, engine=engine).fit(known, y)
        return model, np.column_stack(model.predict(range(graph.n_nodes), return_std=True))
    if kind == "classifier":
        model = wk.NodeGPClassifier(graph, engine=engine).fit(known, labels)
        return model, model.predict_proba(range(graph.n_nodes))
    if kind == "ridge":
        model = wk.NodeRidge(graph, engine=engine).fit(known, y)
    elif kind == "ridge classifier":
        model = wk.NodeRidgeClassifier(graph, engine=engine).fit(known, labels)
        return model, model.predict_proba(range(graph.n_nodes))
    elif kind == "features":
        model = wk.NodeFeatures(graph, wk.Diffusion(2.0), engine=engine).fit(known, y)
        rows = model.transform(range(graph.n_nodes))
        return model, rows @ rows.T
    else:
        model = wk.NodeSmoother(graph, engine=engine).fit(known, y)
    return model, model.predict(range(graph.n_nodes))


@pytest.mark.parametrize(
    "kind", ["regressor", "classifier", "ridge", "ridge classifier", "features", "smoother"]
)
def test_estimators_by_exact_rows(kind, device):
    (here, found), (there, expected) = (fitted(kind, graphs.karate(), e) for e in (CUDA(device), None))
    assert here.method_ == there.method_ == "polynomial"
    assert here.kernel_ == there.kernel_
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_equations(device):
    graph, x = graphs.karate(), np.eye(34)[0]
    here, there = (wk.solve_ode(graph, x, [0.5, 2.0], initial=x, engine=e) for e in (CUDA(device), None))
    np.testing.assert_allclose(here.x, there.x, rtol=0, atol=1e-12)
    assert not here.stderr.any()


@pytest.mark.parametrize("method", ["auto", "polynomial", "push"])
@pytest.mark.parametrize("name", KERNELS)
def test_nearest_nodes(graph, name, method, device):
    kernel = KERNELS[name]
    if graph.directed and (name in ("matern", "series")):
        pytest.skip("the series of a directed graph may diverge, and is not pushed")
    nodes = graph.names(np.array([0, 3]))
    here, there = (wk.nearest(graph, kernel, nodes, 3, method=method, engine=e) for e in (CUDA(device), None))
    assert (here.nodes == there.nodes).all()
    np.testing.assert_allclose(here.values, there.values, rtol=1e-12)
    assert (here.certified == there.certified).all()


@pytest.mark.parametrize("learn", [(), ("amplitude", "noise", "nugget")])
def test_draws_multiply_features_where_they_are(learn, device, monkeypatch):
    """Features of all nodes are not kept, and not brought here."""
    monkeypatch.setattr(WALK_CACHE, "limit", 0)
    graph, known = graphs.karate(), np.arange(0, 34, 3)
    y = np.sin(known / 3)
    drawn = []
    for engine in (CUDA(device, "float64"), None):
        options = {"method": "walks", "n_walks": 64, "learn": learn, "engine": engine}
        model = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), **options).fit(known, y)
        if engine is not None:
            monkeypatch.setattr(DeviceFeatures, "to_scipy", None)
            drawn += [model.sample_y(n_samples=2), model.sample_y([5, 2, 5], n_samples=2)]
            monkeypatch.undo()
            monkeypatch.setattr(WALK_CACHE, "limit", 0)
        else:
            drawn.append(model.sample_y(n_samples=2))
    np.testing.assert_allclose(drawn[1], drawn[0][[5, 2, 5]], rtol=1e-12)
    np.testing.assert_allclose(drawn[0], drawn[2], rtol=0, atol=1e-5)
