"""The Dask engine is optional, loaded by nobody else, and opens nothing before it is used."""

import inspect
import pickle
import subprocess
import sys

import pytest

import walkernel as wk
from walkernel.engines import Dask

NOWHERE = "tcp://127.0.0.1:1"


def test_it_is_documented():
    doc = inspect.getdoc(Dask)
    assert "Parameters\n----------\n" in doc
    assert "Examples\n--------\n>>> " in doc
    for method, function in vars(Dask).items():
        assert method.startswith("_") or not inspect.isfunction(function) or inspect.getdoc(function)


def test_parameters_are_frozen():
    assert list(inspect.signature(Dask).parameters) == ["client", "block_size"]
    with pytest.raises(AttributeError):
        Dask(NOWHERE).block_size = 3


def test_addresses_are_not_opened():
    engine = Dask(NOWHERE, 10)
    assert repr(engine) == "Dask(block_size=10, address='tcp://127.0.0.1:1')"
    assert pickle.loads(pickle.dumps(engine)) == engine == Dask("127.0.0.1:1", 10)
    assert len({engine, Dask("127.0.0.1:1", 10), Dask(NOWHERE)}) == 2
    assert engine.local == wk.engines.CPU()


def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("walkernel.engines._cluster.SCHEDULER_TIMEOUT", 1)
    graph = wk.Graph.from_edges([(0, 1)])
    with pytest.raises(ConnectionError, match=r"No Dask scheduler was reached at tcp://127\.0\.0\.1:1 \("):
        wk.sample_walks(graph, 2, engine=Dask(NOWHERE))


@pytest.mark.parametrize("client", [None, 3, Dask])
def test_other_types_of_clients(client):
    with pytest.raises(
        TypeError, match=r"Dask: client must be a Client, got .*distributed\.Client\(address\)"
    ):
        Dask(client)


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://127.0.0.1", "tcp://a b:1", "cuda"])
def test_other_addresses(address):
    with pytest.raises(ValueError, match=r"Dask: client must be a Client or an address such as tcp://"):
        Dask(address)


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_other_sizes_of_blocks(size):
    with pytest.raises(ValueError, match="Dask: block_size must be a whole number of at least 1, got"):
        Dask(NOWHERE, size)


def test_progress_is_checked_first():
    with pytest.raises(TypeError, match="progress"):
        wk.sample_walks(wk.Graph.from_edges([(0, 1)]), 2, engine=Dask(NOWHERE), progress=3)


def test_nothing_else_loads_dask():
    code = """
import sys, walkernel, walkernel.engines, walkernel.cli
import walkernel.operators, walkernel.tasks
assert "Dask" in walkernel.engines.__all__
walkernel.estimate_kernel(walkernel.Graph.from_edges([(0, 1)]), walkernel.Diffusion(), 2, engine="cpu")
assert not {"dask", "distributed"} & set(sys.modules)
walkernel.engines.Dask
assert "distributed" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_it_says_what_to_install(tmp_path):
    code = f"""
import sys
sys.modules["distributed"] = None
from typer.testing import CliRunner
from walkernel.cli import app
command = ["features", "karate", "--out", {str(tmp_path / "phi.npz")!r}]
assert CliRunner().invoke(app, command).exit_code == 0
result = CliRunner().invoke(app, [*command, "--scheduler", "tcp://127.0.0.1:8786"])
assert result.exit_code == 1
print(result.stderr.strip())
import walkernel.engines
try:
    walkernel.engines.Dask
except ImportError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    message = "walkernel.engines.Dask needs Dask. Install it with `pip install walkernel[dask]`."
    assert result.stdout.splitlines() == [f"Error: {message}", message]
