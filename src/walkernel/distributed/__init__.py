"""Walks on a Dask cluster: the graph is sent once, features stay on the workers, and results come back.

The functions take a ``distributed.Client`` and return the same bits as the functions of the same names in
``walkernel``, for any number of workers and any block size: walks depend on their start nodes alone, and sums
over blocks follow the summation tree of ``products``. ``estimate_kernel`` returns a ``KernelOperator``, so
everything that accepts one runs on the cluster.

When a worker dies, its blocks are lost; Dask recomputes them from the copy of the graph on another worker. If
no worker holds the graph any more, this process sends it again and resubmits the lost tasks. While the
cluster has no worker, tasks wait until one joins; sending the graph waits for at most 30 seconds. Each task
uses one thread, so give workers one thread per core.
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
