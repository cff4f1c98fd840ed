"""What GRFKernel refuses, and what is said where GPyTorch is missing."""

import math
import subprocess
import sys

import gpytorch
import pytest
import torch

import walkernel as wk
from walkernel.datasets import grid
from walkernel.torch import FreeModulation, GRFKernel, ModulationPair, WalkCovariance

GRAPH = grid(12, 12).graph
SAMPLER = wk.choose_sampler(GRAPH, wk.Diffusion(1.0), wk.Diffusion(6.0), n_walks=64)
X = torch.arange(60)


def kernel_of(kernel, **options):
    return GRFKernel(GRAPH, kernel, **{"n_walks": 64, "sampler": SAMPLER, "seed": 5, **options})


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor([0, 144]), "whole numbers from 0 to 143, got 144"),
        (torch.tensor([-1, 3]), "got -1"),
        (torch.tensor([0.5]), "got 0.5"),
        (torch.tensor([math.nan]), "got nan"),
        (torch.zeros(3, 2), r"nodes of shape \(n,\) or \(n, 1\), got shape \(3, 2\)"),
        (torch.zeros(0, 1), r"got shape \(0, 1\)"),
        (torch.tensor([[[0.0]], [[1.0]]]), "the same nodes in all members"),
    ],
)
def test_bad_nodes(x, message):
    with pytest.raises(ValueError, match=f"GRFKernel.forward: x must be .*{message}"):
        kernel_of(wk.Diffusion(2.0), n_walks=2)(x).to_dense()


def test_ids_that_a_dtype_does_not_hold():
    kernel = kernel_of(wk.Diffusion(2.0), n_walks=2)
    assert kernel(torch.tensor([3], dtype=torch.float16)).shape == (1, 1)
    with pytest.raises(ValueError, match=r"holds 144 ids, as int64 does, got torch\.float8"):
        kernel(torch.tensor([3.0]).to(torch.float8_e4m3fn)).to_dense()


DIRECTED = wk.Graph.from_edges([(0, 1), (1, 2)], directed=True)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("graph", wk.Diffusion()), {}, TypeError, "graph must be a Graph"),
        ((GRAPH, "diffusion"), {}, TypeError, "kernel must be a Kernel"),
        ((GRAPH, ModulationPair(FreeModulation(2), FreeModulation(3))), {}, TypeError, "must be a Kernel"),
        ((GRAPH, wk.Diffusion()), {"n_walks": 0}, ValueError, "n_walks must be a whole number from 1"),
        ((GRAPH, wk.Diffusion()), {"sampler": "walks"}, TypeError, "sampler must be a Sampler"),
        ((GRAPH, wk.Diffusion()), {"matrix": "adjacency"}, ValueError, "matrix must be that of the kernel"),
        ((GRAPH, FreeModulation(2)), {"matrix": "laplacian"}, ValueError, "matrix must be one of"),
        ((GRAPH, wk.Diffusion()), {"dtype": torch.float16}, ValueError, "dtype must be torch.float64 or"),
        ((GRAPH, wk.PowerSeries([1.0, -2.0])), {}, ValueError, "kernel must be positive semidefinite"),
        ((GRAPH, wk.PowerSeries([0.0, 0.0, 1.0])), {}, ValueError, "symmetric modulation function"),
        ((DIRECTED, wk.Diffusion()), {}, ValueError, "graph must be undirected"),
        ((DIRECTED, FreeModulation(2)), {}, ValueError, "graph must be undirected"),
        (
            (GRAPH, wk.PowerSeries([1.0, 0.5])),
            {"lengthscale_prior": gpytorch.priors.GammaPrior(2.0, 1.0)},
            ValueError,
            "lengthscale_prior must be None",
        ),
    ],
)
def test_bad_arguments(arguments, options, error, message):
    with pytest.raises(error, match=message):
        GRFKernel(*arguments, **options)


def test_lengthscales_beyond_convergence_and_beyond_the_walks():
    kernel = kernel_of(wk.RegularizedLaplacian(1, 0.4, matrix="adjacency"), sampler=wk.IndependentWalks(0.05))
    kernel.lengthscale = 3.0
    with pytest.raises(wk.DivergentKernelError, match="diverges on this graph"):
        kernel(X).to_dense()
    narrow = GRFKernel(GRAPH, wk.Diffusion(1.0), n_walks=8)
    narrow.lengthscale = 20.0
    narrow(X).to_dense()  # while it is trained, widths are only tried
    with pytest.warns(wk.InfiniteVarianceWarning, match=r"Diffusion\(sigma=20"):
        narrow.eval()(X).to_dense()
    narrow(X).to_dense()  # said once


def test_last_dim_is_batch_is_refused():
    kernel = kernel_of(wk.Diffusion(2.0), n_walks=2)
    with pytest.raises(ValueError, match="last_dim_is_batch must be False"):
        kernel.forward(X[:, None], X[:, None], last_dim_is_batch=True)


@pytest.mark.parametrize(
    ("name", "missing"), [("WalkCovariance", "linear_operator"), ("GRFKernel", "gpytorch")]
)
def test_missing_gpytorch_is_named(name, missing):
    code = f"""
import sys
sys.modules["{missing}"] = None
import walkernel.torch
walkernel.torch.FreeModulation(2)
assert "{name}" in walkernel.torch.__all__ and "{name}" in dir(walkernel.torch)
try:
    from walkernel.torch import {name}
except ImportError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == (
        f"walkernel.torch.{name} needs GPyTorch. Install it with `pip install walkernel[gp]`."
    )


def test_names_are_there():
    import walkernel.torch

    assert WalkCovariance is walkernel.torch.WalkCovariance
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = walkernel.torch.nonsense


def test_a_dtype_that_is_refused_changes_nothing():
    kernel = GRFKernel(grid(3, 3).graph, wk.Diffusion(1.0), n_walks=4)
    with pytest.raises(ValueError, match=r"torch\.float16"):
        kernel.half()
    assert kernel.dtype == kernel.raw_lengthscale.dtype == torch.float64
