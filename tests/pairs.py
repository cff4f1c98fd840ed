"""Walks for both sides of K̂, as a key of whole numbers determines them where f is learned."""

import numpy as np

import walkernel as wk


def keyed_walks(graph, n_walks, *key, ensembles="independent", nodes=None):
    """Return the walks of the left- and the right-hand side, those of a directed graph against its edges."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
    walked = {"sampler": wk.IndependentWalks(0.5), "seed": seed, "nodes": nodes}
    left = wk.sample_walks(graph, n_walks, **walked)
    if ensembles == "shared":
        return left, left
    return left, wk.sample_walks(graph, n_walks, stream=1, transpose=graph.directed, **walked)
