"""Walks as tensors: the features of Walks.features, and their derivatives."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
import walkernel as wk
from walkernel.torch import WalkTensors, _sparse

MATRICES = ["normalized", "adjacency", "combinatorial"]
SIZES = wk.Diffusion(1.0).modulation(16)
HEADED = wk.CoupledWalks((1.0, 0.6, 0.3, 0.2, 0.1, 0.05), head=2, group=4)
SAMPLERS = {
    "independent": wk.IndependentWalks(0.3),
    "uniform": wk.IndependentWalks(0.3, transition="uniform"),
    "headed": HEADED,
    "pruned": wk.PrunedWalks(SIZES, threshold=1e-3, head=3),
    "unequal": wk.PrunedWalks(SIZES, threshold=0.06, head=3, unevenness=3.0, group=8),
}


def record(kind="weighted", matrix="normalized", sampler=SAMPLERS["independent"], **options):
    return wk.sample_walks(graphs.KINDS[kind](), 8, sampler=sampler, seed=5, matrix=matrix, **options)


def small(**options):
    """Walks of five nodes on a directed, weighted graph."""
    A = np.array([[0, 1.5, 0, 0, 2], [0, 0, 1, 0, 0], [0.5, 0, 0, 1, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0]])
    walks = wk.sample_walks(wk.Graph.from_scipy(A), 4, sampler=wk.IndependentWalks(0.4), seed=1)
    return WalkTensors(walks, **options)


def random(*shape, seed=0, grad=True):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", graphs.KINDS)
def test_features_are_those_of_the_walks(kind, sampler, matrix):
    walks = record(kind, matrix, SAMPLERS[sampler])
    tensors = WalkTensors(walks)
    for length in (1, 3, tensors.n_lengths, tensors.n_lengths + 20):
        f = random(length, grad=False)
        expected = walks.features(f.numpy()).toarray()
        tolerance = 1e-12 * max(1.0, np.abs(expected).max())
        assert np.abs(tensors.dense(f).numpy() - expected).max() <= tolerance
        x, y = random(expected.shape[1], 3, grad=False), random(expected.shape[0], 2, grad=False)
        assert np.allclose(tensors.matmul(f, x), expected @ x.numpy(), atol=100 * tolerance)
        assert np.allclose(tensors.t_matmul(f, y), expected.T @ y.numpy(), atol=100 * tolerance)
        assert np.allclose(tensors.square_norms(f), (expected**2).sum(axis=1), rtol=1e-9)


def test_features_of_chosen_samplers():
    graph, kernel = graphs.karate(), wk.Diffusion(1.5)
    sampler = wk.choose_sampler(graph, kernel)
    walks = wk.sample_walks(graph, 16, sampler=sampler, nodes=[5, 0, 33])
    tensors = WalkTensors(walks)
    assert tensors.shape == (3, 34)
    f = torch.tensor(kernel.modulation(tensors.n_lengths))
    assert np.allclose(tensors.dense(f).numpy(), walks.features(kernel).toarray(), rtol=1e-12, atol=1e-15)


def test_lengths_are_those_of_the_longest_walk():
    walks = record()
    tensors = WalkTensors(walks)
    assert tensors.n_lengths == walks.deposits.lengths.max() + 1
    assert WalkTensors(record(sampler=HEADED)).n_lengths <= HEADED.longest + 1
    assert repr(tensors).startswith("WalkTensors(30 of 30 nodes, ")
    assert f"lengths below {tensors.n_lengths}, torch.float64, cpu" in repr(tensors)


PRODUCTS = {
    "entries": lambda walks, f, x, y: walks.entries(f),
    "matmul": lambda walks, f, x, y: walks.matmul(f, x),
    "t_matmul": lambda walks, f, x, y: walks.t_matmul(f, y),
    "dense": lambda walks, f, x, y: walks.dense(f),
    "square_norms": lambda walks, f, x, y: walks.square_norms(f),
}


@pytest.mark.parametrize("n_terms", [2, 30])
@pytest.mark.parametrize("name", PRODUCTS)
def test_derivatives_by_f_and_by_the_columns(name, n_terms):
    walks = small()
    f, x, y = random(n_terms), random(5, 3, seed=1), random(5, 2, seed=2)
    assert torch.autograd.gradcheck(lambda *args: PRODUCTS[name](walks, *args), (f, x, y))


def test_derivatives_of_selected_rows():
    walks = small().select([3, 0, 3])
    f, x, y = random(6), random(5, 2, seed=1), random(3, 2, seed=2)
    for product in PRODUCTS.values():
        assert torch.autograd.gradcheck(lambda *args, p=product: p(walks, *args), (f, x, y))


@pytest.mark.parametrize("name", [*PRODUCTS, "gram"])
def test_second_derivatives_are_refused(name):
    walks, f, x, y = small(), random(4), random(5, 3, seed=1), random(5, 2, seed=2)
    found = walks.gram(f, walks) if name == "gram" else PRODUCTS[name](walks, f, x, y)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(found.square().sum(), f, create_graph=True)


def test_second_derivatives_of_products_by_columns_are_refused():
    walks, f, x = small(), random(4, grad=False), random(5, 3)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(walks.matmul(f, x).square().sum(), x, create_graph=True)


@pytest.mark.parametrize("limit", ["HOST_GATHERED_NUMBERS", "MAX_GATHERED_NUMBERS"])
def test_derivatives_for_a_few_entries_at_a_time(monkeypatch, limit):
    monkeypatch.setattr(_sparse, "LOOP_DEVICE", "cpu" if limit.startswith("HOST") else "none")
    walks = WalkTensors(record())
    f, x = random(9), random(30, 7, seed=1)
    walks.matmul(f, x).square().sum().backward()
    whole = f.grad.clone()
    for most in (1, 50, 7 * walks._structure.rows.numel() - 1):
        monkeypatch.setattr(_sparse, limit, most)
        f.grad = None
        walks.matmul(f, x).square().sum().backward()
        assert torch.allclose(f.grad, whole, rtol=1e-12)


def test_only_wanted_derivatives_are_made(monkeypatch):
    walks = small()
    f, x = random(5, grad=False), random(5, 2)
    monkeypatch.setattr(_sparse.Structure, "entry_products", None)
    walks.matmul(f, x).sum().backward()
    assert torch.allclose(x.grad, walks.dense(f).sum(dim=0)[:, None].expand(5, 2))


def test_selected_rows_may_repeat():
    walks, f = WalkTensors(record()), random(7, grad=False)
    rows = [4, 0, 4, 29]
    selected = walks.select(rows)
    assert selected.shape == (4, 30)
    assert torch.equal(selected.dense(f), walks.dense(f)[rows])
    again = selected.select(np.array([2], dtype=np.uint8))
    assert torch.equal(again.dense(f), walks.dense(f)[[4]])
    assert torch.equal(selected.square_norms(f), walks.square_norms(f)[rows])


@pytest.mark.parametrize(
    ("rows", "error"),
    [([], (TypeError, ValueError)), ([-1], ValueError), ([30], ValueError), ([0.5], TypeError),
     ([[1]], TypeError), (3, TypeError)],
)  # fmt: skip
def test_rows_that_are_not_there_are_refused(rows, error):
    with pytest.raises(error, match=r"WalkTensors\.select: rows must be"):
        WalkTensors(record()).select(rows)


def test_single_precision():
    walks = WalkTensors(record())
    single = walks.to(dtype=torch.float32)
    assert walks.to() is walks
    assert walks.to("cpu", torch.float64) is walks
    assert single.to(dtype=torch.float64).dtype == torch.float64
    f, x = random(7, grad=False), random(30, 2, grad=False)
    result = single.matmul(f.float(), x.float())
    assert result.dtype == torch.float32
    assert torch.allclose(result.double(), walks.matmul(f, x), rtol=1e-4, atol=1e-5)
    back = single.to(dtype=torch.float64)
    assert torch.equal(back.dense(f), walks.dense(f)), "nothing was lost on the way"
    assert WalkTensors(record(), dtype=torch.float32).select([1]).dtype == torch.float32


def test_devices_are_compared_as_tensors_have_them():
    """A device without a number, or with one too many, is the one that its tensors are on."""
    walks = small(device="cpu:0")
    assert walks.device == torch.zeros(1, device="cpu:0").device
    assert walks.entries(random(3)).numel() > 0
    assert small(device=torch.device("cpu")).device == torch.device("cpu")


def test_other_dtypes_and_devices_are_refused():
    walks, f, x = small(), random(3), random(5, 1)
    with pytest.raises(TypeError, match=r"f must be of torch\.float64 on cpu, .* got torch\.float32 on cpu"):
        walks.entries(f.float())
    with pytest.raises(TypeError, match=r"x must be of torch\.float64 .* got torch\.float32 .*Use walks\.to"):
        walks.matmul(f, x.float())
    with pytest.raises(TypeError, match=r"got torch\.float64 on meta"):
        walks.t_matmul(f, torch.ones(5, 1, dtype=torch.float64, device="meta"))
    with pytest.raises(TypeError, match=r"f must be of .* got torch\.float64 on meta"):
        walks.dense(torch.ones(2, dtype=torch.float64, device="meta"))
    with pytest.raises(ValueError, match=r"dtype must be torch\.float64 or torch\.float32, got torch\.int64"):
        walks.to(dtype=torch.int64)
    with pytest.raises(TypeError, match=r"walks must be a Walks.*Sample them with sample_walks"):
        WalkTensors(np.eye(3))


@pytest.mark.parametrize("f", [[1.0, 2.0], torch.ones(0), torch.ones(2, 2), torch.tensor(1.0), None])
def test_sequences_of_other_shapes_are_refused(f):
    with pytest.raises(
        TypeError, match=r"WalkTensors\.entries: f must be a tensor of one dimension, not empty"
    ):
        small().entries(f)


def test_columns_of_other_shapes_are_refused():
    walks, f = small().select([0, 1]), random(3)
    with pytest.raises(ValueError, match=r"x must be a tensor of shape \(5, columns\), got shape \(2, 1\)"):
        walks.matmul(f, random(2, 1))
    with pytest.raises(ValueError, match=r"x must be a tensor of shape \(2, columns\), got shape \(5, 1\)"):
        walks.t_matmul(f, random(5, 1))
    with pytest.raises(ValueError, match=r"got shape \(5,\)"):
        walks.matmul(f, random(5))
    with pytest.raises(ValueError, match="x must be a tensor"):
        walks.matmul(f, np.ones((5, 1)))
    assert walks.matmul(f, random(5, 0)).shape == (2, 0)


def test_nodes_without_edges_have_their_own_feature():
    graph = wk.Graph.from_edges([(0, 1)], n_nodes=3)
    walks = WalkTensors(wk.sample_walks(graph, 4, nodes=[2]))
    assert walks.n_lengths == 1
    assert walks.dense(torch.tensor([2.0, 5.0], dtype=torch.float64)).tolist() == [[0, 0, 2]]


def test_loads_beyond_all_numbers_are_refused():
    A = 1e30 * graphs.random_matrix()
    walks = wk.sample_walks(wk.Graph.from_scipy(A), 4, sampler=wk.IndependentWalks(0.02), matrix="adjacency")
    with pytest.raises(ValueError, match=r"float64, got larger loads\. Walk on matrix='normalized'"):
        WalkTensors(walks)


SHARED = WalkTensors(record("signed"))
sequences = st.lists(st.floats(-10, 10), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(sequences, sequences, st.floats(-3, 3))
def test_features_are_linear_in_f(f, g, c):
    n = max(len(f), len(g))
    a, b = (torch.tensor(s + [0.0] * (n - len(s)), dtype=torch.float64) for s in (f, g))
    left = SHARED.dense(a + c * b)
    right = SHARED.dense(torch.tensor(f, dtype=torch.float64))
    right = right + c * SHARED.dense(torch.tensor(g, dtype=torch.float64))
    scale = SHARED.dense(a.abs() + abs(c) * b.abs()).abs().max() + 1
    assert (left - right).abs().max() <= 1e-9 * scale


def test_loads_that_single_precision_cannot_hold_are_refused():
    complete = wk.Graph.from_edges([(i, j) for i in range(200) for j in range(i)])
    walks = wk.sample_walks(complete, 16, matrix="adjacency", nodes=range(20))
    assert WalkTensors(walks).n_entries > 0
    for make in (
        lambda: WalkTensors(walks, dtype=torch.float32),
        lambda: WalkTensors(walks).to(dtype=torch.float32),
    ):
        with pytest.raises(ValueError, match=r"in the range of torch.float32.*or use torch\.float64"):
            make()


def test_products_leave_the_filters_of_warnings_alone():
    """PyTorch's remark on CSR tensors is not heard, and what others warn of once does not come again."""
    code = """
import warnings
import torch, walkernel as wk
from walkernel.torch import WalkTensors
walks = WalkTensors(wk.sample_walks(wk.Graph.from_edges([(0, 1)]), 2))
f, x = torch.ones(2, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("default")
    for _ in range(3):
        walks.matmul(f, x)
        warnings.warn("once")
assert [str(one.message) for one in heard] == ["once"], [str(one.message) for one in heard]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
