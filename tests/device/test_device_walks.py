"""Walks on a device are those of the compiled loops, step by step."""

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from walkernel.torch import estimate_kernel, sample_features, sample_walks
from walkernel.torch._device_walks import _coalesce, _coalesce_by_row

LAW = (0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1)
SAMPLERS = {
    "independent": wk.IndependentWalks(0.2),
    "uniform steps": wk.IndependentWalks(0.3, transition="uniform"),
    "coupled": wk.CoupledWalks(LAW),
    "small groups": wk.CoupledWalks(LAW, group=4),
    "head": wk.CoupledWalks(LAW, head=1),
    "long head": wk.CoupledWalks(LAW, head=3, group=2),
}
MATRICES = ("normalized", "adjacency", "combinatorial")


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
@pytest.mark.parametrize("kind", graphs.KINDS)
def test_walks_are_the_same(kind, sampler, matrix, device):
    graph = graphs.KINDS[kind]()
    options = {"sampler": sampler, "seed": 2**63 + 5, "stream": 3, "matrix": matrix}
    here = sample_walks(graph, 16, **options, device=device, dtype=torch.float64).to_walks()
    there = wk.sample_walks(graph, 16, **options)
    for one, other in zip(here.deposits[:3], there.deposits[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(here.deposits.loads, there.deposits.loads, rtol=1e-13)
    for one, other in zip(here.deposits.head, there.deposits.head, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_key_gives_other_walks(device):
    """The twin that fails: nothing but the key decides."""
    graph = graphs.unweighted()
    first = sample_walks(graph, 16, seed=1, device=device)
    for options in ({"seed": 2}, {"seed": 1, "stream": 1}, {"seed": 1 + 2**32}):
        other = sample_walks(graph, 16, **options, device=device)
        assert other.nodes.shape != first.nodes.shape or not torch.equal(other.nodes, first.nodes)


def test_all_64_bits_of_a_draw_choose_the_neighbour(device):
    """From a hub of four million neighbours 32 bits would lead elsewhere in one step out of two thousand."""
    n = 4 * 10**6 + 1
    star = wk.Graph.from_edges(np.column_stack([np.zeros(n, dtype=int), np.arange(1, n + 1)]))
    options = {"sampler": wk.IndependentWalks(0.01), "nodes": list(range(1, 25)), "seed": 3}
    here = sample_walks(star, 16, **options, device=device).to_walks()
    there = wk.sample_walks(star, 16, **options)
    np.testing.assert_array_equal(here.deposits.nodes, there.deposits.nodes)
    assert (there.deposits.nodes == 0).sum() > 15_000


def test_some_nodes_and_transposed_walks(device):
    graph = graphs.directed()
    options = {"nodes": [7, 2, 29], "transpose": True, "seed": 4}
    here = sample_walks(graph, 8, **options, device=device).to_walks()
    there = wk.sample_walks(graph, 8, **options)
    np.testing.assert_array_equal(here.deposits.nodes, there.deposits.nodes)
    np.testing.assert_array_equal(here.ids, [7, 2, 29])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sampler", ["independent", "coupled", "long head"])
@pytest.mark.parametrize("kind", ["weighted", "directed", "signed", "isolated"])
def test_features(kind, sampler, dtype, device):
    graph, kernel = graphs.KINDS[kind](), wk.Diffusion(1.0)
    exact = wk.sample_features(graph, kernel, 16, sampler=SAMPLERS[sampler], seed=9).toarray()
    for block_size in (2**21, 7):
        found = sample_features(
            graph, kernel, 16, sampler=SAMPLERS[sampler], seed=9, device=device, dtype=dtype,
            block_size=block_size,
        )  # fmt: skip
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.to_dense().cpu(), exact, rtol=0, atol=1e-13 if dtype == torch.float64 else 1e-6
        )


def test_rows_sorted_by_programs_of_their_own(device):
    """Rows that end and begin with the same node stay apart."""
    indptr = torch.tensor([0, 3, 3, 8, 9], device=device)
    nodes = torch.tensor([4, 1, 4, 4, 0, 4, 2, 0, 4], dtype=torch.int32, device=device)
    values = torch.arange(1.0, 10.0, device=device)
    found = _coalesce_by_row(indptr, nodes, values, (4, 5))
    expected = _coalesce(indptr, nodes, values, (4, 5))
    assert found.crow_indices().tolist() == [0, 2, 2, 5, 6]
    assert torch.equal(found.to_dense(), expected.to_dense())
    assert found.to_dense()[0].tolist() == [0.0, 2.0, 0.0, 0.0, 4.0]


@pytest.mark.parametrize("sampler", ["independent", "coupled", "long head"])
@pytest.mark.parametrize("kind", ["unweighted", "directed", "signed"])
def test_products_without_features(kind, sampler, device):
    graph, kernel = graphs.KINDS[kind](), wk.RegularizedLaplacian(1, 0.7)
    V = np.random.default_rng(0).normal(size=(graph.n_nodes, 3))
    options = {"sampler": SAMPLERS[sampler], "seed": 4}
    left = wk.sample_features(graph, kernel, 16, **options)
    right = wk.sample_features(graph, kernel, 16, stream=1, transpose=graph.directed, **options)
    for block_size in (2**22, 7):
        K = estimate_kernel(
            graph, kernel, 16, **options, device=device, dtype=torch.float64, block_size=block_size
        )
        np.testing.assert_allclose((K @ torch.tensor(V)).cpu(), left @ (right.T @ V), atol=1e-12)


def test_the_default_sampler_is_that_of_the_core(device):
    graph, kernel = graphs.weighted(), wk.Diffusion(1.5)
    K = estimate_kernel(graph, kernel, 64, device=device, dtype=torch.float64)
    error = (K @ torch.eye(30, dtype=torch.float64)).cpu().numpy() - wk.exact_kernel(graph, kernel)
    assert np.abs(error).max() < 0.05


def test_bad_input(device):
    graph = graphs.unweighted()
    with pytest.raises(ValueError, match=r"dtype must be torch.float32 or torch.float64, got torch.float16"):
        sample_walks(graph, 4, device=device, dtype=torch.float16)
    with pytest.raises(ValueError, match="n_walks must be a whole number"):
        sample_walks(graph, 0, device=device)
    with pytest.raises(ValueError, match="block_size"):
        sample_features(graph, wk.Diffusion(), 4, device=device, block_size=0)
    K = estimate_kernel(graph, wk.Diffusion(), 4, device=device)
    for wrong in (torch.ones(30), torch.ones(29, 2), torch.ones(30, 0), np.ones((30, 2))):
        with pytest.raises(TypeError, match=r"V must be a tensor of shape \(30, columns\)"):
            K @ wrong
