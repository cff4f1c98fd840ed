"""CSR arrays are checked where they are, and taken as they are."""

import numpy as np
import pytest
import scipy.sparse
import torch

import walkernel as wk

RNG = np.random.default_rng(0)
HALF = scipy.sparse.csr_array(RNG.random((50, 50)) * (RNG.random((50, 50)) < 0.1))
WEIGHTED = scipy.sparse.csr_array(HALF + HALF.T)
WEIGHTED.sort_indices()
ARRAYS = WEIGHTED.indptr, WEIGHTED.indices, WEIGHTED.data


@pytest.fixture(params=[np.asarray, torch.tensor], ids=["arrays", "tensors"])
def kind(request):
    return request.param


@pytest.mark.parametrize("size", [1, 3, 64, 10**6])
def test_the_graph_is_that_of_the_matrix(size, kind, monkeypatch):
    """Entries are looked at in parts, of which each begins with the last entry of the one before."""
    monkeypatch.setattr("walkernel.graph._csr.ENTRIES_AT_ONCE", size)
    graph = wk.Graph.from_csr(*map(kind, ARRAYS))
    assert graph.fingerprint == wk.Graph.from_scipy(WEIGHTED).fingerprint
    bare = wk.Graph.from_csr(*map(kind, ARRAYS[:2]))
    assert bare.weights is None
    assert bare.n_self_loops == graph.n_self_loops == np.count_nonzero(WEIGHTED.diagonal()) > 0
    assert bare.n_edges == graph.n_edges


@pytest.mark.parametrize("directed", [False, True])
def test_no_edges(directed):
    assert wk.Graph.from_csr([0, 0, 0], [], directed=directed).n_edges == 0


def test_given_arrays_may_change_afterwards():
    indices = ARRAYS[1].copy()
    graph = wk.Graph.from_csr(ARRAYS[0], indices)
    indices[:] = 0
    assert np.array_equal(graph.indices, ARRAYS[1])


def test_walks_on_it_are_the_same():
    walks = [
        wk.sample_walks(graph, 8) for graph in (wk.Graph.from_csr(*ARRAYS), wk.Graph.from_scipy(WEIGHTED))
    ]
    assert np.array_equal(walks[0].deposits.nodes, walks[1].deposits.nodes)


@pytest.mark.parametrize("at", [0, 7, WEIGHTED.nnz - 1])
def test_a_weight_that_differs_in_its_last_bit_is_not_symmetric(at, kind, monkeypatch):
    monkeypatch.setattr("walkernel.graph._csr.ENTRIES_AT_ONCE", 10)
    weights = ARRAYS[2].copy()
    weights[at] = np.nextafter(weights[at], 2)
    with pytest.raises(
        ValueError, match=r"from_csr: indices must be those of a symmetric .* or pass directed"
    ):
        wk.Graph.from_csr(*map(kind, (*ARRAYS[:2], weights)))
    assert wk.Graph.from_csr(*map(kind, (*ARRAYS[:2], weights)), directed=True).directed


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        (([0, 1, 2], [1, 2]), ValueError, "indices must be from 0 to 1, got 1 … 2"),
        (([0, 1, 2], [1, -1]), ValueError, "indices must be from 0 to 1, got -1 … 1"),
        (([0, 2, 3], [1, 0, 0]), ValueError, "indices must be ascending in each row, none twice"),
        (([0, 2, 2], [0, 0]), ValueError, "Sort the indices of each row and sum repeated ones"),
        (([0, 1, 1], [1]), ValueError, "symmetric matrix"),
        (([0, 1, 3], [0]), ValueError, r"indptr must be ascending from 0 to 1.* got 0 … 3"),
        (([0, 2, 1, 2], [0, 1]), ValueError, "indptr must be ascending"),
        (([], []), ValueError, "at least one node"),
        (([0, 1], [0.5]), TypeError, r"indices must be one-dimensional, of whole numbers, got .* of float64"),
        (([[0, 1]], [0]), TypeError, "indptr must be one-dimensional"),
        (([0, 1, 2], [1, 0], [1.0]), ValueError, "weights must be one for each of 2 indices, got 1"),
        (([0, 1, 2], [1, 0], [np.nan, np.nan]), ValueError, "weights must be finite and not zero"),
        (([0, 1, 2], [1, 0], [0.0, 0.0]), ValueError, "Leave edges of weight zero out"),
    ],
)
def test_bad_arrays(arrays, error, message, kind):
    if kind is torch.tensor:
        arrays = [torch.tensor(array if array else np.empty(0, int)) for array in arrays]
        message = message.replace("of float64", "of torch.float32")
    with pytest.raises(error, match=message):
        wk.Graph.from_csr(*arrays)


def test_arrays_and_tensors_are_not_mixed():
    with pytest.raises(TypeError, match="indices must be an array like indptr, all of NumPy or all tensors"):
        wk.Graph.from_csr([0, 1, 2], torch.tensor([1, 0]))
