"""WalkCovariance: linear_operator's own suites against dense features, gradients, and what is refused."""

import unittest

import numpy as np
import pytest
import torch
from linear_operator.test.linear_operator_test_case import (
    LinearOperatorTestCase,
    RectangularLinearOperatorTestCase,
)

import walkernel as wk
from walkernel.torch import WalkCovariance, WalkTensors

GRAPH = wk.load_dataset("karate").graph
WALKS = wk.sample_walks(GRAPH, 6, sampler=wk.IndependentWalks(0.5), seed=3)
TENSORS = WalkTensors(WALKS, dtype=torch.float32)
UNITS = np.stack([WALKS.features(unit).toarray() for unit in np.eye(TENSORS.n_lengths)])
"""Features P_l of single lengths, (lengths, nodes, nodes)."""
ROWS, COLUMNS = [5, 0, 33, 12, 8], [1, 5, 2, 30, 7, 21]
F = [1.0, 0.4, 0.1]
BATCH = [[1.0, 0.4, 0.1], [0.8, -0.3, 0.2]]
TWICE_BATCH = [BATCH, [[0.9, 0.1, 0.3], [1.2, 0.2, 0.0]], [[0.7, 0.3, 0.0], [1.0, -0.1, 0.1]]]


def dense_features(f, rows):
    """Φ_f from features of single lengths, (*batch, rows, nodes), differentiable by f."""
    units = torch.as_tensor(UNITS[: f.shape[-1], rows], dtype=f.dtype)
    return torch.tensordot(f, units, dims=1)


class Suite:
    """What the suites of linear_operator ask for: an operator, and the same matrix by other means."""

    f, columns = F, None

    def create_linear_op(self):
        other = None if self.columns is None else TENSORS.select(self.columns)
        return WalkCovariance(torch.tensor(self.f, requires_grad=True), TENSORS.select(ROWS), other)

    def evaluate_linear_op(self, linear_op):
        columns = ROWS if self.columns is None else self.columns
        return dense_features(linear_op.f, ROWS) @ dense_features(linear_op.f, columns).mT


class SquareSuite(Suite, LinearOperatorTestCase):
    seed = 0
    should_test_sample = True

    def test_half(self):
        """Sparse products of PyTorch are of float32 and float64, so that half precision is refused."""
        with pytest.raises(ValueError, match=r"float64 or torch\.float32, got torch\.float16"):
            self.create_linear_op().half()


class TestSquare(SquareSuite, unittest.TestCase):
    pass


class TestBatch(SquareSuite, unittest.TestCase):
    f = BATCH


class TestTwiceBatch(SquareSuite, unittest.TestCase):
    f = TWICE_BATCH


class TestRectangular(Suite, RectangularLinearOperatorTestCase, unittest.TestCase):
    columns, seed = COLUMNS, 0


class TestRectangularBatch(Suite, RectangularLinearOperatorTestCase, unittest.TestCase):
    f, columns, seed = BATCH, COLUMNS, 0


DOUBLE = WalkTensors(WALKS)


def make(f=F, rows=None, columns=None, walks=DOUBLE):
    """An operator between some nodes, all if none are given, and its f."""
    f = torch.tensor(f, dtype=walks.dtype, requires_grad=True)
    left = walks if rows is None else walks.select(rows)
    return WalkCovariance(f, left, None if columns is None else walks.select(columns)), f


@pytest.mark.parametrize("columns", [None, COLUMNS])
@pytest.mark.parametrize("f", [F, BATCH])
def test_gradients_by_f_are_exact(f, columns):
    n = len(ROWS if columns is None else columns)
    x = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    functions = {
        "matmul": lambda K: K @ x,
        "dense": lambda K: K.to_dense(),
        "elements": lambda K: K[..., torch.tensor([0, 3]), torch.tensor([2, -1])],
        "block": lambda K: K[..., 1:4, ::2].to_dense(),
    }
    if columns is None:
        functions["diagonal"] = lambda K: K.diagonal(dim1=-1, dim2=-2)
        functions["likelihood"] = lambda K: torch.stack(
            K.add_jitter(0.5).inv_quad_logdet(x.expand(*K.shape[:-1], 2), logdet=True)
        )
    left, right = DOUBLE.select(ROWS), None if columns is None else DOUBLE.select(columns)
    theta = torch.tensor(f, dtype=torch.float64, requires_grad=True)
    for name, function in functions.items():
        assert torch.autograd.gradcheck(lambda f, g=function: g(WalkCovariance(f, left, right)), theta), name


@pytest.mark.parametrize("columns", [None, COLUMNS])
@pytest.mark.parametrize("f", [F, BATCH])
@pytest.mark.parametrize("at_once", [1, 2**24])
def test_few_elements_need_no_matrix(f, columns, at_once, monkeypatch):
    monkeypatch.setattr("walkernel.torch._operator.MAX_SHARED_ENTRIES", at_once)
    K, theta = make(f, columns=columns)
    monkeypatch.setattr(WalkCovariance, "to_dense", None)
    features = dense_features(theta, slice(None))
    dense = features @ (features if columns is None else features[..., columns, :]).mT
    index = (..., torch.tensor([0, 33, -1, 5, 5, 2]), torch.tensor([1, -1, 0, 5, 4, 2]))
    if len(K.shape) == 3:
        index = (torch.tensor([0, 1, 1, 0, -1, 0]), *index[1:])
    torch.testing.assert_close(K[index], dense[index])
    (gradient,) = torch.autograd.grad(K[index].square().sum(), theta, retain_graph=True)
    (expected,) = torch.autograd.grad(dense[index].square().sum(), theta)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("at_once", [1, 100, 2**25])
@pytest.mark.parametrize("loops_on", ["cpu", "nowhere"])
def test_loops_and_blocks_of_any_size_give_the_same_matrix(loops_on, at_once, monkeypatch):
    monkeypatch.setattr("walkernel.torch._sparse.LOOP_DEVICE", loops_on)
    monkeypatch.setattr("walkernel.torch._sparse.MAX_GATHERED_NUMBERS", at_once)
    K, theta = make(columns=COLUMNS)
    dense = dense_features(theta, slice(None)) @ dense_features(theta, COLUMNS).mT
    torch.testing.assert_close(K.to_dense(), dense)
    weights = torch.linspace(-1, 2, dense.numel(), dtype=dense.dtype).reshape(dense.shape)
    found, expected = (torch.autograd.grad((weights * one).sum(), theta)[0] for one in (K.to_dense(), dense))
    torch.testing.assert_close(found, expected)


def test_f_of_any_length():
    short, long = make([1.0, 0.5])[0], make([1.0, 0.5] + [0.0] * 300)[0]
    assert torch.equal(short.to_dense(), long.to_dense())


def test_chosen_rows_are_an_operator_on_them():
    K, _ = make()
    ids = torch.tensor([3, 0, 3])
    assert isinstance(K[ids][:, ids], WalkCovariance)
    block = K[1:9:2, 1:9:2]
    assert isinstance(block, WalkCovariance)
    assert block.other is None
    assert K[:, :] is K
    assert K[0:0].shape == (0, 34)
    with pytest.raises(IndexError, match="out of bounds"):
        K[torch.tensor([34])]


def test_dtype_and_device_follow():
    K, _ = make(columns=COLUMNS)
    single = K.float()
    assert single.dtype == single.walks.dtype == single.other.dtype == torch.float32
    assert single.to_dense().dtype == torch.float32
    assert K.cpu().device == torch.device("cpu")
    assert K.to("cpu", torch.float64).walks is K.walks
    assert WalkTensors(WALKS, device="cpu:0").device == torch.empty(0, device="cpu:0").device
    assert DOUBLE.to("cpu:0").device == DOUBLE.to(torch.empty(0, device="cpu:0").device).device


def test_transpose_and_sides():
    K, theta = make(rows=ROWS, columns=COLUMNS)
    assert torch.equal(K.mT.to_dense(), K.to_dense().mT)
    assert WalkCovariance(theta, DOUBLE, DOUBLE).other is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.ones(2, dtype=torch.float64), WALKS), TypeError, "walks must be a WalkTensors"),
        ((torch.ones(2), DOUBLE), TypeError, "f must be of torch.float64 on cpu, like the walks"),
        ((torch.ones(2, dtype=torch.float64), DOUBLE, TENSORS), TypeError, "other must be walks on 34 nodes"),
        ((torch.ones(2, dtype=torch.float64), DOUBLE, WALKS), TypeError, "other must be a WalkTensors"),
        ((torch.ones(2, 0, dtype=torch.float64), DOUBLE), TypeError, "f must be a tensor of shape"),
        ((torch.tensor(1.0, dtype=torch.float64), DOUBLE), TypeError, "f must be a tensor of shape"),
        (([1.0, 2.0], DOUBLE), TypeError, "f must be a tensor of shape"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        WalkCovariance(*arguments)
