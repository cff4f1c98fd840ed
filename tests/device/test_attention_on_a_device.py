"""Masked attention by Triton kernels: the sums and gradients of the CPU, and the same bits in two runs."""

import numpy as np
import pytest
import torch

import walkernel as wk
from walkernel.torch import MaskedAttention, WalkTensors, _attention, masked_attention

GRAPH = wk.Graph.from_edges([(0, i) for i in range(1, 8)] + [(1, 2), (2, 3), (5, 6)])
LENGTHS = torch.tensor([[1.0, 0.5, 0.2], [0.9, 0.1, 0.3]], dtype=torch.float64)


@pytest.fixture
def by_kernels(monkeypatch, device):
    """Kernels serve tensors of a CPU too, with small programs."""
    monkeypatch.setattr(_attention, "PROGRAM_ENTRIES", 9)
    monkeypatch.setattr(_attention, "DEVICE_TILE_ENTRIES", 200)
    monkeypatch.setattr("walkernel.torch._device_attention.LONGEST_PIECE", 4)
    if device == "cpu":
        monkeypatch.setattr(_attention, "LOOP_DEVICE", "none")


def attend(device, dtype, per_head=True, needed="qkvab"):
    """Return the output and gradients of two heads by name, on the CPU; f is a for queries and b for keys."""
    rng = np.random.default_rng(0)
    parts = [torch.tensor(rng.standard_normal((2, 8, c)), dtype=dtype, device=device) for c in (3, 3, 2)]
    f = (LENGTHS if per_head else LENGTHS[0]).to(device, dtype)
    inputs = dict(zip("qkvab", (*parts, f.clone(), f.flip(-1)), strict=True))
    sides = tuple(
        WalkTensors(wk.sample_walks(GRAPH, 3, stream=stream), device=device, dtype=dtype) for stream in (0, 1)
    )
    q, k, v, a, b = (x.requires_grad_(name in needed) for name, x in inputs.items())
    output = masked_attention(q, k, v, sides, f=(a, b))
    gradients = torch.autograd.grad(output.square().sum(), [inputs[name] for name in needed])
    found = {"output": output, **dict(zip(needed, gradients, strict=True))}
    return {name: x.detach().cpu() for name, x in found.items()}


def check_equal(found, expected, tolerance):
    for name, x in found.items():
        error, size = (x - expected[name]).abs().max(), expected[name].abs().max()
        assert float(error) <= tolerance * float(size), name


@pytest.mark.parametrize("per_head", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_cpu(device, dtype, per_head, request):
    expected = attend("cpu", torch.float64, per_head)
    request.getfixturevalue("by_kernels")
    found = attend(device, dtype, per_head)
    check_equal(found, expected, 1e-11 if dtype == torch.float64 else 1e-5)
    if device == "cuda":
        again = attend(device, dtype, per_head)
        assert all(torch.equal(again[name], found[name]) for name in found)


@pytest.mark.parametrize("needed", ["q", "a", "qa", "k", "v", "b", "kv", "kb", "vb"])
def test_some_gradients_equal_those_of_all(device, needed, request):
    expected = attend("cpu", torch.float64, per_head=False)
    request.getfixturevalue("by_kernels")
    check_equal(attend(device, torch.float64, per_head=False, needed=needed), expected, 1e-11)


def test_the_module_moves_to_the_device(device, by_kernels):
    torch.manual_seed(0)
    module = MaskedAttention(GRAPH, 4, 2, n_walks=3).to(device)
    output, _ = module(torch.ones(8, 4, device=device))
    output.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())
