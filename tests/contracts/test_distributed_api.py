"""The names of walkernel.distributed are frozen here; the wing is optional, and loaded by nobody else."""

import inspect
import subprocess
import sys

import pytest

import walkernel as wk
import walkernel.distributed as there

FUNCTIONS = {"estimate_kernel", "sample_features", "sample_walks", "store_features"}
CLASSES = {"ClusterFeatures", "ClusterWalks"}
OF_THIS_PROCESS = {"n_threads"}


def test_names_are_frozen():
    assert set(there.__all__) == FUNCTIONS | CLASSES
    assert list(there.__all__) == sorted(there.__all__)


@pytest.mark.parametrize("name", sorted(FUNCTIONS | CLASSES))
def test_every_name_is_documented(name):
    value = getattr(there, name)
    doc = inspect.getdoc(value)
    assert doc
    assert name in CLASSES or "Examples\n--------\n>>> " in doc
    if name in CLASSES:
        for method, function in vars(value).items():
            assert method.startswith("_") or not inspect.isfunction(function) or inspect.getdoc(function)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_take_what_those_of_the_core_take(name):
    mine = inspect.signature(getattr(there, name)).parameters
    core = inspect.signature(getattr(wk, name)).parameters
    assert set(mine) >= set(core) - OF_THIS_PROCESS
    assert set(mine) - set(core) <= {"client", "block_size"}
    for parameter in set(mine) & set(core):
        assert mine[parameter].default == core[parameter].default, parameter
        assert mine[parameter].kind == core[parameter].kind, parameter
    assert mine["client"].kind is inspect.Parameter.KEYWORD_ONLY


def test_nothing_else_loads_dask():
    code = """
import sys, walkernel, walkernel.cli
import walkernel.operators, walkernel.tasks, walkernel.storing
from walkernel.cli._estimates import features
assert not {"dask", "distributed"} & set(sys.modules)
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
try:
    import walkernel.distributed
except ImportError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    message = "walkernel.distributed needs Dask. Install it with `pip install walkernel[dask]`."
    assert result.stdout.splitlines() == [f"Error: {message}", message]
