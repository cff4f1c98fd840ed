"""The engine CUDA is a value; without a CUDA device it says so, when it is used and not before."""

import copy
import pickle
import re
import subprocess
import sys
import warnings

import pytest
import sklearn
import torch

import graphs
import walkernel as wk
from walkernel.engines import CUDA

GRAPH = graphs.unweighted()
TOO_OLD = "The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver."
CALLS = {
    "sample_walks": lambda engine: wk.sample_walks(GRAPH, 4, engine=engine),
    "sample_features": lambda engine: wk.sample_features(GRAPH, wk.Diffusion(), 4, engine=engine),
    "estimate_kernel": lambda engine: wk.estimate_kernel(GRAPH, wk.Diffusion(), 4, engine=engine),
}


def set_up(monkeypatch, *, warning=None, error=None):
    """Let CUDA be there or not, and fail in a way of its own."""

    def is_available():
        if warning is not None:
            warnings.warn(warning, UserWarning, stacklevel=1)
        return warning is None

    def fail(*arguments, **options):
        raise error

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    if error is not None:
        monkeypatch.setattr(torch, "tensor", fail)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_no_device(call, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for engine in ("cuda", CUDA()):
        with pytest.raises(ValueError, match="an available device, got cuda, but no CUDA device was found"):
            call(engine)
    with pytest.raises(ValueError, match=r"a CUDA device, got cpu\. On the CPU use walkernel.engines.CPU"):
        call(CUDA("cpu"))
    monkeypatch.setenv("WALKERNEL_ENGINE", "cuda:1")
    with pytest.raises(ValueError, match="an available device, got cuda:1, but no CUDA device was found"):
        call(None)


def test_a_pytorch_without_cuda(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    message = (
        r"but this PyTorch was built without CUDA\. Install one with CUDA from https://pytorch.org\. On the"
    )
    with pytest.raises(ValueError, match=message):
        CALLS["sample_walks"]("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_directory_is_made_without_a_device(monkeypatch, tmp_path):
    """One with a manifest would be refused by an engine of another precision."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    directory = tmp_path / "features"
    for call in (wk.sample_features, wk.estimate_kernel):
        with pytest.raises(ValueError, match="an available device"):
            call(GRAPH, wk.Diffusion(), 4, directory=directory, engine="cuda")
        assert not directory.exists()
    assert wk.sample_features(GRAPH, wk.Diffusion(), 4, directory=directory).shape == (30, 30)


def test_a_number_that_no_device_has(monkeypatch):
    set_up(monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="an available device, got cuda:2, but there are 2"):
        CALLS["sample_walks"]("cuda:2")


@pytest.mark.parametrize(
    "failure",
    [
        {"warning": f"CUDA initialization: {TOO_OLD} (Triggered internally at CUDAFunctions.cpp:119.)"},
        {"error": RuntimeError(TOO_OLD)},
    ],
    ids=["before", "when it is used"],
)
@pytest.mark.parametrize("call", [*CALLS.values(), lambda engine: engine.hold(GRAPH.to_scipy())])
def test_a_driver_that_is_too_old(call, failure, monkeypatch):
    """PyTorch warns, or raises if the driver was only counted; either way nothing else is said."""
    set_up(monkeypatch, **failure)
    message = (
        "device must be an available device, got cuda, but the NVIDIA driver is too old for this PyTorch. "
        "Update the driver, or install a PyTorch for it from https://pytorch.org. On the CPU use"
    )
    with pytest.raises(ValueError, match=message):
        call(CUDA())


@pytest.mark.parametrize(
    "failure",
    [
        {"warning": "CUDA initialization: CUDA unknown error"},
        {"error": RuntimeError("Found no NVIDIA driver on your system.")},
    ],
    ids=["before", "when it is used"],
)
def test_a_device_that_does_not_start(failure, monkeypatch):
    set_up(monkeypatch, **failure)
    with pytest.raises(ValueError, match=r"got cuda, but no CUDA device was found.*(unknown error|on your)"):
        CALLS["sample_walks"](CUDA())


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("all"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: out of memory"),
    ],
)
def test_too_little_memory_is_said_with_what_to_do(error, monkeypatch):
    set_up(monkeypatch, error=error)
    engine, hint = CUDA(block_size=1000), re.escape(f"On the CPU use walkernel.engines.CPU(). ({error})")
    walks = r"cuda has too little memory for walks from 1000 nodes at a time\. Use CUDA\(block_size=250\), .*"
    for call in CALLS.values():
        with pytest.raises(MemoryError, match=walks + hint):
            call(engine)
    matrix = r"for a matrix of \d+ entries\. Use a smaller graph\. "
    with pytest.raises(MemoryError, match=matrix + hint):
        wk.polynomial_operator(GRAPH, wk.Diffusion(), engine=engine)
    with pytest.raises(MemoryError, match=r"with\. Use fewer columns at a time\. " + hint), engine.in_use():
        raise error


def test_other_failures_are_passed_on(monkeypatch):
    set_up(monkeypatch, error=RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="an illegal memory access"):
        CALLS["sample_walks"](CUDA())


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
