"""Whichever allocation a device has no memory left for, the error says what to do, and nothing is left."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import graphs
import walkernel as wk
from walkernel.engines import CUDA

KERNEL, SAMPLER = wk.Diffusion(1.0), wk.IndependentWalks(0.3)
V = np.random.default_rng(0).normal(size=(30, 3))
TENSOR, ROWS = torch.tensor(V), torch.tensor(V.T)


class Full(TorchDispatchMode):
    """Memory that suffices for a number of operations of PyTorch."""

    def __init__(self, most=np.inf):
        super().__init__()
        self.count, self.most = 0, most

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        if self.count > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return function(*args, **(kwargs or {}))


def walked(engine):
    options = {"sampler": SAMPLER, "ensembles": "debiased", "engine": engine}
    return wk.estimate_kernel(graphs.weighted(), KERNEL, 8, **options)


def polynomial(engine):
    return wk.polynomial_operator(graphs.weighted(), KERNEL, engine=engine)


def fitted(engine):
    model = wk.NodeGPRegressor(graphs.weighted(), KERNEL, method="walks", n_walks=8, learn=(), engine=engine)
    return model.fit([0, 4, 9], [1.0, 2.0, 0.5])


OPERATIONS = {
    "products": lambda K: K @ V,
    "products of tensors": lambda K: K @ TENSOR,
    "products from the left": lambda K: ROWS @ K,
    "rows": lambda K: K.rows([0, 3]),
    "entries": lambda K: K.entries([0, 3], [1, 3]),
    "neighbours": lambda K: K.topk([8], 2),
}
CASES = {f"{make.__name__}, {name}": (make, act) for make in (walked, polynomial)
         for name, act in OPERATIONS.items()}  # fmt: skip
CASES["features"] = (
    lambda engine: wk.sample_walks(graphs.weighted(), 8, engine=engine),
    lambda walks: walks.features(KERNEL),
)
CASES["predictions"] = (fitted, lambda model: model.predict([1, 2], return_std=True))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:.*topk")
def test_any_operation_may_be_the_first_without_memory(case, device):
    make, act = CASES[case]
    engine = CUDA(device, "float64")
    with Full() as memory:
        act(made := make(engine))
    total, made = memory.count, make(engine)
    with Full() as memory:
        expected = act(made)
    for most in np.unique(np.linspace(0, memory.count - 1, 12).astype(int)):
        made = make(engine)
        with Full(most), pytest.raises(MemoryError, match="too little memory") as caught:
            act(made)
        assert "walkernel.engines.CPU()" in str(caught.value)
        if case == "walked, products":
            np.testing.assert_array_equal(act(made), expected)
    assert total > memory.count > 0


def test_a_fit_without_memory_leaves_nothing(device):
    model = wk.NodeSmoother(graphs.weighted(), KERNEL, engine=CUDA(device, "float64"))
    before = dict(vars(model))
    with Full(20), pytest.raises(MemoryError, match="too little memory"):
        model.fit([0, 4, 9], [1.0, 2.0, 0.5])
    assert vars(model) == before
