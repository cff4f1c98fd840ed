"""Graphs by name: some are built in, some drawn at random, some found in files or downloaded.

``load_dataset`` loads them by name. A data set is a graph and data of its nodes; the functions that build
graphs can also be called with other parameters. Files are looked for in the folder named by
``WALKERNEL_DATA``, then in the cache (``WALKERNEL_CACHE``, else the user's cache folder); others are
downloaded from its public address, checked by its SHA-256, converted, and kept in the cache.
"""

from walkernel.datasets._dataset import Dataset
from walkernel.datasets._loading import Entry, available, load_dataset
from walkernel.datasets._random_graphs import (
    barabasi_albert,
    erdos_renyi,
    random_regular,
    stochastic_block_model,
)
from walkernel.datasets._shapes import binary_tree, cylinder_mesh, grid, karate, torus_mesh
from walkernel.datasets._sources import cache_folder

__all__ = [
    "Dataset",
    "Entry",
    "available",
    "barabasi_albert",
    "binary_tree",
    "cache_folder",
    "cylinder_mesh",
    "erdos_renyi",
    "grid",
    "karate",
    "load_dataset",
    "random_regular",
    "stochastic_block_model",
    "torus_mesh",
]
