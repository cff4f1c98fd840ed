"""Without a CUDA device the wing says so; with neither it nor Triton's interpreter nothing is walked."""

import subprocess
import sys

import pytest
import torch

import graphs
import walkernel as wk
from walkernel.torch import estimate_kernel, sample_features, sample_walks

GRAPH = graphs.unweighted()
CALLS = {
    "sample_walks": lambda **options: sample_walks(GRAPH, 4, **options),
    "sample_features": lambda **options: sample_features(GRAPH, wk.Diffusion(), 4, **options),
    "estimate_kernel": lambda **options: estimate_kernel(GRAPH, wk.Diffusion(), 4, **options),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_no_device(call, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="device must be an available device, got cuda, but no CUDA device"):
        call()
    with pytest.raises(ValueError, match=r"a CUDA device, got cpu\. Use walkernel.sample_walks"):
        call(device="cpu")


def test_kernels_are_checked_before_anything_is_walked():
    with pytest.raises(wk.DivergentKernelError):
        estimate_kernel(GRAPH, wk.RegularizedLaplacian(1, 2.0, matrix="adjacency"), 4)
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        sample_features(GRAPH, [1.0], 4)


def test_triton_is_imported_with_the_first_walk():
    code = "import sys, walkernel.torch; assert 'triton' not in sys.modules or 'torch' in sys.modules"
    code += "; assert 'walkernel.torch._triton_walks' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
