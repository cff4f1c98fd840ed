"""Engines: where walks are sampled and features are kept.

An engine is given by name (``engine="cpu"``, ``"cuda"``, ``"cuda:1"``) or as an object: ``CPU(n_threads)``,
``CUDA(device, dtype)``, ``Dask(client)``. All of them sample the same walks. An engine is a value: it is
frozen, equal to another one with the same arguments, and opens nothing before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from walkernel.engines._base import Engine, FeatureJob, resolve
from walkernel.engines._cpu import CPU
from walkernel.engines._sampling import checked_spec, features_job, sample_features, sample_walks
from walkernel.engines._stored_features import StoredFeatures, open_features, store

if TYPE_CHECKING:
    from walkernel.engines._cluster import open_client
    from walkernel.engines._cuda import CUDA
    from walkernel.engines._dask import Dask
    from walkernel.engines._device_features import DeviceFeatures
    from walkernel.engines._device_walks import DeviceRecord
    from walkernel.engines._tensors import csr_tensor, launching_on, offsets, rows_of

_LATE = {
    "CUDA": "_cuda",
    "Dask": "_dask",
    "DeviceFeatures": "_device_features",
    "DeviceRecord": "_device_walks",
    "csr_tensor": "_tensors",
    "launching_on": "_tensors",
    "offsets": "_tensors",
    "open_client": "_cluster",
    "rows_of": "_tensors",
}

__all__ = [
    "CPU",
    "CUDA",
    "Dask",
    "DeviceFeatures",
    "DeviceRecord",
    "Engine",
    "FeatureJob",
    "StoredFeatures",
    "checked_spec",
    "csr_tensor",
    "features_job",
    "launching_on",
    "offsets",
    "open_client",
    "open_features",
    "resolve",
    "rows_of",
    "sample_features",
    "sample_walks",
    "store",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(f"walkernel.engines.{_LATE[name]}"), name)
    raise AttributeError(f"module 'walkernel.engines' has no attribute {name!r}")
