"""Small features in files, and what is said about them."""

import numpy as np
import pytest

import graphs
import walkernel as wk

GRAPH, KERNEL = graphs.karate(), wk.Diffusion()


def store(folder, **options):
    return wk.sample_features(GRAPH, KERNEL, 8, directory=folder, **{"block_size": 10} | options)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a.toarray(), b.toarray())


def blocks_of(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("block-"))


def refused(error, folder, **options):
    with pytest.raises(error) as caught:
        store(folder, **options)
    return str(caught.value)
