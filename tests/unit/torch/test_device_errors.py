"""The engine CUDA is a value; without a CUDA device it says so, when it is used and not before."""

import copy
import pickle
import subprocess
import sys

import pytest
import sklearn
import torch

import graphs
import walkernel as wk
from walkernel.engines import CUDA

GRAPH = graphs.unweighted()
CALLS = {
    "sample_walks": lambda engine: wk.sample_walks(GRAPH, 4, engine=engine),
    "sample_features": lambda engine: wk.sample_features(GRAPH, wk.Diffusion(), 4, engine=engine),
    "estimate_kernel": lambda engine: wk.estimate_kernel(GRAPH, wk.Diffusion(), 4, engine=engine),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_no_device(call, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for engine in ("cuda", CUDA()):
        with pytest.raises(ValueError, match="an available device, got cuda, but no CUDA device was found"):
            call(engine)
    with pytest.raises(ValueError, match=r"a CUDA device, got cpu\. On the CPU use walkernel.engines.CPU"):
        call(CUDA("cpu"))
    monkeypatch.setenv("WALKERNEL_ENGINE", "cuda:1")
    with pytest.raises(ValueError, match="an available device, got cuda:1, but no CUDA device was found"):
        call(None)


def test_a_number_that_no_device_has(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="an available device, got cuda:2, but there are 2"):
        CALLS["sample_walks"]("cuda:2")


def test_too_little_memory_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr(CUDA, "_check_available", lambda self: None)
    with (
        pytest.raises(
            MemoryError, match=r"cuda has too little memory .* 1000 nodes.*block_size=250.*\(all\)"
        ),
        CUDA(block_size=1000).in_use(),
    ):
        raise torch.cuda.OutOfMemoryError("all")


def test_kernels_are_checked_before_anything_is_walked():
    with pytest.raises(wk.DivergentKernelError):
        wk.estimate_kernel(GRAPH, wk.RegularizedLaplacian(1, 2.0, matrix="adjacency"), 4, engine="cuda")
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        wk.estimate_kernel(GRAPH, [1.0], 4, engine="cuda")
    with pytest.raises(ValueError, match="n_walks must be a whole number"):
        wk.sample_walks(GRAPH, 0, engine="cuda")


def test_engines_are_values():
    engine = CUDA("cuda:1", "float64", keep_features=False, block_size=10)
    same = CUDA(torch.device("cuda", 1), torch.float64, False, 10)
    assert engine == same
    assert hash(engine) == hash(same)
    assert CUDA() == CUDA("cuda") == CUDA(block_size=2**21)
    for other in (CUDA(), CUDA("cuda:1"), CUDA("cuda:1", "float64"), wk.engines.CPU()):
        assert engine != other
    assert pickle.loads(pickle.dumps(engine)) == engine
    assert copy.deepcopy(engine) is engine
    assert sklearn.clone(engine) is engine
    assert (engine.device, engine.dtype, engine.precision) == ("cuda:1", "float64", "cuda float64")
    assert repr(CUDA()) == "CUDA(device='cuda', dtype='float32', keep_features=True, block_size=2097152)"


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "cuda:01", "mps", torch.device("meta")])
def test_other_devices_are_refused(device):
    with pytest.raises(ValueError, match="device must be 'cuda', or 'cuda:' and a number"):
        CUDA(device)


@pytest.mark.parametrize("dtype", ["float16", torch.float16, "torch", float, None])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(ValueError, match=r"dtype must be 'float32' or 'float64', got"):
        CUDA(dtype=dtype)


def test_other_arguments_are_refused():
    with pytest.raises(TypeError, match="device must be 'cuda'"):
        CUDA(1)
    with pytest.raises(ValueError, match="block_size must be a whole number of at least 1, got 0"):
        CUDA(block_size=0)
    with pytest.raises((TypeError, ValueError), match="keep_features must be"):
        CUDA(keep_features="no")


def run(code):
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_nothing_is_imported_before_the_first_walk():
    """Neither by an engine, nor by the learning that takes one; Triton comes with the first walk alone."""
    run("import sys, walkernel.engines as e; e.CUDA('cuda:1', 'float64'); assert 'torch' not in sys.modules")
    for module in ("walkernel.torch", "walkernel.engines._device_features"):
        run(f"import sys, {module}; assert 'walkernel.engines._triton_walks' not in sys.modules")


@pytest.mark.parametrize(("module", "name"), [("torch", "PyTorch"), ("triton", "Triton")])
def test_what_is_missing_is_named(module, name):
    code = f"""
import sys
sys.modules[{module!r}] = None
import walkernel as wk
try:
    wk.sample_walks(wk.Graph.from_edges([(0, 1)]), 2, engine="cuda")
except ImportError as error:
    print(error)
"""
    assert run(code) == (
        f"walkernel.engines.CUDA needs {name}. Install it with `pip install walkernel[torch]`. "
        "On the CPU use walkernel.engines.CPU()."
    )
