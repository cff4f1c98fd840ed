"""Start nodes that are divided between devices: the walks and the answers of one."""

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from walkernel.engines import CPU, CUDA, FeatureJob

KERNEL = wk.Diffusion(1.0)
SAMPLERS = {
    "independent": wk.IndependentWalks(0.3),
    "unequal": wk.PrunedWalks(KERNEL.modulation(16), threshold=0.06, head=2, unevenness=3.0),
}
COUNT = 2


@pytest.fixture
def devices(device):
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())] if device == "cuda" else ["cpu"] * COUNT


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_features_are_those_of_one_device(sampler, keep, devices):
    graph, rng = graphs.weighted(), np.random.default_rng(0)
    spec = wk.sample_walks(graph, 16, sampler=sampler, seed=2)
    job = FeatureJob(spec, KERNEL.modulation(spec.longest + 1), (0,), separate_heads=True)
    told = []
    engine = CUDA(devices, "float64", keep_features=keep)
    found = engine.features(job, lambda done, total: told.append((done, total)))
    assert told[-1] == (graph.n_nodes, graph.n_nodes)
    X, some = rng.standard_normal((graph.n_nodes, 2)), rng.permutation(graph.n_nodes)[:7]
    single = CUDA(devices[0], "float64", keep_features=keep).features(job)
    for one, other, there in zip(found, CPU().features(job), single, strict=True):
        assert one.shape == other.shape
        assert (one.n_steps, one.nnz) == (other.n_steps, there.nnz)
        np.testing.assert_allclose(one.multiply(X), other.multiply(X), atol=1e-12)
        np.testing.assert_allclose(one.multiply_transposed(X), other.multiply_transposed(X), atol=1e-12)
        assert (one.rows(some) != there.rows(some)).nnz == 0
        assert (one.to_scipy() != there.to_scipy()).nnz == 0
        assert (one.held().to_scipy() != there.to_scipy()).nnz == 0
        np.testing.assert_allclose(one.squared_norms(), other.squared_norms(), rtol=1e-12)
        sparse = other.rows(some)
        np.testing.assert_allclose(
            one.row_products(sparse).toarray(), other.row_products(sparse).toarray(), atol=1e-12
        )
        assert one.rows(some[:0]).shape == (0, graph.n_nodes)
        tensor = one.multiply(torch.tensor(X, device=devices[0]))
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_allclose(tensor.cpu().numpy(), other.multiply(X), atol=1e-12)


@pytest.mark.parametrize("keep", [True, False])
def test_kernels_are_those_of_one_device(keep, devices):
    graph, options = graphs.weighted(), {"n_walks": 8, "seed": 4, "sampler": wk.IndependentWalks(0.3)}
    here = wk.estimate_kernel(graph, KERNEL, **options, engine=CUDA(devices, "float64", keep_features=keep))
    there = wk.estimate_kernel(graph, KERNEL, **options)
    V = np.random.default_rng(0).standard_normal((graph.n_nodes, 2))
    np.testing.assert_allclose(here @ V, there @ V, atol=1e-12)
    one, other = here.estimate_product(V), there.estimate_product(V)
    np.testing.assert_allclose(one.stderr, other.stderr, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(here.diagonal(), there.diagonal(), atol=1e-12)


def test_fewer_start_nodes_than_devices(devices):
    spec = wk.sample_walks(graphs.weighted(), 4, nodes=[5], sampler=wk.IndependentWalks(0.3))
    for keep in (True, False):
        [found] = CUDA(devices, keep_features=keep).features(FeatureJob(spec, KERNEL.modulation(9), (0,)))
        assert found.multiply(np.ones((spec.graph.n_nodes, 1))).shape == (1, 1)


def test_estimators(devices):
    graph, y = graphs.weighted(), np.sin(np.arange(12))
    options = {"method": "walks", "n_walks": 4, "sampler": wk.IndependentWalks(0.3), "learn": ()}
    answers = [
        wk.NodeGPRegressor(graph, KERNEL, **options, engine=engine)
        .fit(np.arange(12), y)
        .predict(np.arange(20), return_std=True)
        for engine in (CUDA(devices, "float64"), None)
    ]
    np.testing.assert_allclose(*answers, rtol=1e-8)


def test_devices_are_different_ones():
    assert CUDA(["cuda", "cuda:1"]).device == ("cuda:0", "cuda:1")
    assert CUDA(["cuda:1"]) == CUDA("cuda:1")
    assert hash(CUDA(["cuda:0", "cuda:1"])) == hash(CUDA(("cuda", "cuda:1")))
    for devices in ([], ["cuda", "cuda:0"], ["cuda:1", "cuda:1"], ["cuda:0", "cpu"]):
        with pytest.raises(ValueError, match="different devices"):
            CUDA(devices)
