"""The names of walkernel.torch are frozen here; the wing is optional and uses the core by public names."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import walkernel.torch as wt

NAMES = {
    *("Bounds", "ExpectedError", "FreeModulation", "HeldOutErrors", "KernelFit", "ModulationPair"),
    *("NeuralModulation", "Schedule", "TaskFit", "WalkTensors", "angular_loss", "cross_entropy_loss"),
    *("fit_to_kernel", "fit_to_task", "held_out_errors", "learned_bounds", "load_modulation"),
    *("squared_loss", "WalkCovariance", "GRFKernel"),
    *("KernelDiffusion", "LaplacianEncoding", "RandomWalkEncoding"),
    *("MaskedAttention", "masked_attention"),
}
FUNCTIONS = (*("fit_to_kernel", "fit_to_task", "held_out_errors", "learned_bounds", "load_modulation"),)
CLASSES = (
    *("FreeModulation", "ModulationPair", "NeuralModulation", "WalkTensors"),
    *("KernelDiffusion", "LaplacianEncoding", "MaskedAttention", "RandomWalkEncoding"),
)
MORE_POSITIONAL = {"ExpectedError": 5, "masked_attention": 4}
"""A class and a function of one equation, whose arguments are its symbols."""


def test_names_are_frozen():
    assert set(wt.__all__) == NAMES
    assert list(wt.__all__) == sorted(wt.__all__)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_documented(name):
    value = getattr(wt, name)
    doc = inspect.getdoc(value)
    assert doc
    assert value.__doc__ != "Alias for field number 0"
    if name in FUNCTIONS + CLASSES:
        assert "Examples\n--------\n>>> " in doc


@pytest.mark.parametrize("name", sorted(NAMES))
def test_public_methods_are_documented(name):
    value = getattr(wt, name)
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                assert inspect.getdoc(function), method


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES, *MORE_POSITIONAL])
def test_options_are_keyword_only(name):
    kinds = [p.kind for p in inspect.signature(getattr(wt, name)).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= MORE_POSITIONAL.get(name, 3)
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)


def test_the_core_does_not_import_it():
    code = """
import sys, walkernel as wk
wk.sample_walks(wk.Graph.from_edges([(0, 1)]), 2).features(wk.Diffusion())
assert not {"torch", "walkernel.torch"} & set(sys.modules)
import walkernel.torch
assert not {"gpytorch", "sklearn", "torch_geometric"} & set(sys.modules)
"""
    result = run(code)
    assert result.returncode == 0, result.stderr


def test_without_pytorch_it_says_what_to_install():
    code = """
import sys
sys.modules["torch"] = None
import walkernel
try:
    import walkernel.torch
except ImportError as error:
    print(error)
"""
    result = run(code)
    assert result.stdout.strip() == (
        "walkernel.torch needs PyTorch. Install it with `pip install walkernel[torch]`."
    )


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("walkernel"):
            yield node.module, [name.name for name in node.names]


def test_public_names_of_the_core_only():
    """Modules and names without an underscore; messages, seeds, files and tensors are those of all layers."""
    allowed = {"walkernel._checks", "walkernel._door", "walkernel._philox", "walkernel._files"}
    allowed |= {"walkernel.engines._tensors"}
    for path in pathlib.Path(wt.__file__).parent.glob("*.py"):
        for module, names in imports(path):
            inside = module.startswith("walkernel.torch") or module in allowed
            assert inside or "._" not in module, (path.name, module)
            assert not any(name.startswith("_") for name in names), (path.name, names)
            assert not module.startswith(("walkernel.tasks", "walkernel.distributed")), path.name


def test_files_are_short():
    for path in pathlib.Path(wt.__file__).parent.glob("*.py"):
        lines = set(range(len(path.read_text().splitlines())))
        for node in ast.walk(ast.parse(path.read_text())):  # pages of the API are long, and no code
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                lines -= set(range(node.body[0].lineno - 1, node.body[0].end_lineno))
        assert len(lines) <= 300, path.name
