"""walkernel: kernels on the nodes of graphs, from random walks.

>>> import walkernel as wk
>>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
>>> K = wk.estimate_kernel(graph, wk.Diffusion(sigma=1.0), n_walks=256)
>>> K.topk(["d"], 1).nodes
array([['c']], dtype=object)

Importing it loads NumPy and SciPy at most; every name below loads what it needs when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0rc1"

_HOME = {
    "walkernel.graph": ["Graph"],
    "walkernel.kernels": [
        "Diffusion", "InverseCosine", "Kernel", "Matern", "PStepRandomWalk", "PageRank", "PowerSeries",
        "RegularizedLaplacian",
    ],
    "walkernel.walks": ["CoupledWalks", "IndependentWalks", "PrunedWalks"],
    "walkernel.features": ["Walks", "anchor_points", "johnson_lindenstrauss"],
    "walkernel.engines": ["StoredFeatures", "open_features", "sample_features", "sample_walks"],
    "walkernel.planning": ["choose_sampler", "matched_law"],
    "walkernel.operators": [
        "Estimate", "EstimatedNeighbors", "KernelOperator", "Neighbors", "estimate_kernel", "exact_kernel",
        "nearest", "personalized_pagerank", "polynomial_operator", "return_probabilities", "sparse_kernel",
    ],
    "walkernel.io": ["load_graph"],
    "walkernel.datasets": ["Dataset", "load_dataset"],
    "walkernel.tasks": [
        "GPPrediction", "KernelKMeans", "NodeFeatures", "NodeGPClassifier", "NodeGPRegressor", "NodeRidge",
        "NodeRidgeClassifier",
        "NodeSmoother", "ODESolution", "clustering_error", "gp_posterior", "solve_ode",
    ],
    "walkernel._checks": ["DivergentKernelError", "InfiniteVarianceWarning"],
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_SUBMODULES = ("datasets", "engines", "kernels", "plots", "tasks", "theory")

__all__ = [  # noqa: PLE0604 (names come from the table above)
    *sorted(_MODULE_OF),
    *_SUBMODULES,
]

if TYPE_CHECKING:
    from walkernel._checks import DivergentKernelError, InfiniteVarianceWarning
    from walkernel.datasets import Dataset, load_dataset
    from walkernel.engines import StoredFeatures, open_features, sample_features, sample_walks
    from walkernel.features import Walks, anchor_points, johnson_lindenstrauss
    from walkernel.graph import Graph
    from walkernel.io import load_graph
    from walkernel.kernels import (
        Diffusion,
        InverseCosine,
        Kernel,
        Matern,
        PageRank,
        PowerSeries,
        PStepRandomWalk,
        RegularizedLaplacian,
    )
    from walkernel.operators import (
        Estimate,
        EstimatedNeighbors,
        KernelOperator,
        Neighbors,
        estimate_kernel,
        exact_kernel,
        nearest,
        personalized_pagerank,
        polynomial_operator,
        return_probabilities,
        sparse_kernel,
    )
    from walkernel.planning import choose_sampler, matched_law
    from walkernel.tasks import (
        GPPrediction,
        KernelKMeans,
        NodeFeatures,
        NodeGPClassifier,
        NodeGPRegressor,
        NodeRidge,
        NodeRidgeClassifier,
        NodeSmoother,
        ODESolution,
        clustering_error,
        gp_posterior,
        solve_ode,
    )
    from walkernel.walks import CoupledWalks, IndependentWalks, PrunedWalks


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"walkernel.{name}")
    raise AttributeError(f"module 'walkernel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
