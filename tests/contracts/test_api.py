"""The public names are one screen, and frozen here."""

import importlib
import inspect
import subprocess
import sys

import pytest

import walkernel as wk

NAMES = [
    *("Dataset", "Diffusion", "DivergentKernelError", "Graph", "IndependentWalks", "InfiniteVarianceWarning"),
    *("InverseCosine", "Kernel", "KernelOperator", "Matern", "Neighbors", "PStepRandomWalk", "PageRank"),
    *("PowerSeries",),
    *("RegularizedLaplacian", "Walks", "anchor_points", "estimate_kernel", "exact_kernel"),
    *(
        "engines",
        "johnson_lindenstrauss",
        "kernels",
        "load_dataset",
        "load_graph",
        "nearest",
        "personalized_pagerank",
        "polynomial_operator",
        "sample_features",
        "sample_walks",
        "plots",
        "theory",
    ),
    *("GPPrediction", "StoredFeatures", "gp_posterior", "open_features"),
    *(
        "KernelKMeans",
        "NodeFeatures",
        "NodeGPClassifier",
        "NodeGPRegressor",
        "NodeRidge",
        "NodeRidgeClassifier",
        "NodeSmoother",
        "ODESolution",
        "choose_sampler",
    ),
    *("CoupledWalks", "PrunedWalks", "Estimate", "EstimatedNeighbors", "matched_law"),
    *("clustering_error", "datasets", "solve_ode", "tasks"),
    *("return_probabilities", "sparse_kernel"),
]


def test_names_are_frozen():
    assert sorted(wk.__all__) == sorted(NAMES)
    assert set(NAMES) <= set(dir(wk))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name):
    assert inspect.getdoc(getattr(wk, name))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = wk.nonsense


def test_options_are_keyword_only():
    for function in (
        wk.sample_walks,
        wk.estimate_kernel,
        wk.exact_kernel,
        wk.polynomial_operator,
        wk.personalized_pagerank,
        wk.return_probabilities,
        wk.sparse_kernel,
        wk.Graph.from_edges,
        wk.NodeFeatures,
        wk.NodeSmoother,
        wk.NodeRidge,
        wk.NodeGPRegressor,
        wk.NodeGPClassifier,
        wk.KernelKMeans,
        wk.solve_ode,
    ):
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 3
        assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_import_is_light():
    heavy = {"numba", "sklearn", "torch", "dask", "networkx", "pandas", "pooch", "trimesh", "matplotlib"}
    heavy |= {"typer", "rich", "distributed"}
    code = f"import walkernel, sys; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = f"""
import walkernel as wk, sys
g = wk.Graph.from_edges([(0, 1)])
wk.load_graph, wk.load_dataset("karate")
wk.exact_kernel(g, wk.Diffusion()); wk.polynomial_operator(g, wk.Diffusion()) @ [1, 2]
assert not {heavy} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_submodules_never_import_the_root():
    import pathlib
    import re

    for path in pathlib.Path(wk.__file__).parent.rglob("*.py"):
        if path.parent.name != "cli":
            assert not re.search(r"^\s*(import walkernel\b|from walkernel import)", path.read_text(), re.M), (
                path
            )


def test_theory_is_public():
    assert {"batch_length", "rademacher_bound", "generalization_bound"} <= set(
        dir(importlib.import_module("walkernel.theory"))
    )


def test_tasks_use_public_names_of_the_core_only():
    """Modules and names without an underscore; messages and warnings are those of all layers."""
    import ast
    import pathlib

    allowed = {f"walkernel._{name}" for name in ("checks", "door", "html", "philox", "threads")}
    for path in pathlib.Path(wk.tasks.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("walkernel"):
                inside = node.module.startswith("walkernel.tasks") or node.module in allowed
                assert inside or "._" not in node.module, (path.name, node.module)
                assert inside or not any(name.name.startswith("_") for name in node.names), path.name
