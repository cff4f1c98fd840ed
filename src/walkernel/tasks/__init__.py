"""Applications of kernels: scikit-learn features, clustering, smoothing, regression, graph ODEs.

Everything here is built on public names of the core, costs what the operator costs, and never forms an N×N
matrix. Nodes are X, the graph is a constructor argument, and ``fit`` and ``predict`` follow scikit-learn.
"""

from walkernel.tasks._features import NodeFeatures
from walkernel.tasks._gp_classifier import NodeGPClassifier
from walkernel.tasks._gp_operator import GPPrediction, gp_posterior
from walkernel.tasks._gp_regressor import NodeGPRegressor
from walkernel.tasks._kmeans import KernelKMeans, clustering_error
from walkernel.tasks._ode import ODESolution, solve_ode
from walkernel.tasks._ridge import NodeRidge, NodeRidgeClassifier
from walkernel.tasks._smoother import NodeSmoother
from walkernel.tasks._walk_cache import WALK_CACHE, WalkCache

__all__ = [
    "WALK_CACHE",
    "GPPrediction",
    "KernelKMeans",
    "NodeFeatures",
    "NodeGPClassifier",
    "NodeGPRegressor",
    "NodeRidge",
    "NodeRidgeClassifier",
    "NodeSmoother",
    "ODESolution",
    "WalkCache",
    "clustering_error",
    "gp_posterior",
    "solve_ode",
]
