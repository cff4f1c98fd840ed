"""Walks on a Dask cluster: the graph travels once, features stay where they were made, results come back.

The functions take a ``distributed.Client`` and do what those of the same names in ``walkernel`` do, to the
last bit, for any number of workers and any size of blocks: walks depend on their start nodes alone, and sums
over blocks follow the tree of ``products``. What they return is a ``KernelOperator`` like any other, so that
everything that takes one runs on the cluster.

A worker that dies takes its blocks along; Dask makes them again from the graph that other workers have. If
none has it any more, it is sent again from here, and what was lost is made anew. While there is no worker,
what is to be done waits: for one that joins, but for half a minute at most if the graph must be sent. Each
task uses one thread: give workers one thread for each core.
"""

from __future__ import annotations

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "walkernel.distributed needs Dask. Install it with `pip install walkernel[dask]`."
    ) from error

from walkernel.distributed._estimate import estimate_kernel
from walkernel.distributed._features import ClusterFeatures
from walkernel.distributed._sample import sample_features, store_features
from walkernel.distributed._walks import ClusterWalks, sample_walks

__all__ = [
    "ClusterFeatures",
    "ClusterWalks",
    "estimate_kernel",
    "sample_features",
    "sample_walks",
    "store_features",
]
