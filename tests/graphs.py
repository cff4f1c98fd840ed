"""Small graphs of every kind, made from fixed seeds."""

import numpy as np

import walkernel as wk


def karate():
    return wk.load_dataset("karate").graph


def binary_tree(depth=6):
    n = 2 ** (depth + 1) - 1
    return wk.Graph.from_edges([((i - 1) // 2, i) for i in range(1, n)])


def random_matrix(n=30, p=0.15, *, seed=0, symmetric=True):
    """An adjacency matrix without isolated nodes: a ring plus random chords."""
    rng = np.random.default_rng(seed)
    A = (rng.random((n, n)) < p).astype(float)
    np.fill_diagonal(A, 0)
    A[np.arange(n), (np.arange(n) + 1) % n] = 1
    return np.maximum(A, A.T) if symmetric else A


def unweighted():
    return wk.Graph.from_scipy(random_matrix())


def weighted():
    rng = np.random.default_rng(1)
    W = np.triu(rng.lognormal(0, 0.5, (30, 30)), 1)
    return wk.Graph.from_scipy(random_matrix() * (W + W.T))


def directed():
    rng = np.random.default_rng(2)
    return wk.Graph.from_scipy(random_matrix(symmetric=False, seed=3) * rng.lognormal(0, 0.7, (30, 30)))


def signed():
    rng = np.random.default_rng(4)
    S = np.triu(rng.choice([-1.0, 1.0, 1.0], (30, 30)), 1)
    return wk.Graph.from_scipy(random_matrix() * (S + S.T))


def self_loops():
    return wk.Graph.from_scipy(random_matrix() + np.diag(np.arange(30) % 3 == 0))


def isolated():
    """Two connected parts and three nodes without edges."""
    A = np.zeros((33, 33))
    A[:15, :15], A[15:30, 15:30] = random_matrix(15, 0.25, seed=5), random_matrix(15, 0.3, seed=6)
    return wk.Graph.from_scipy(A)


KINDS = {
    "unweighted": unweighted,
    "weighted": weighted,
    "directed": directed,
    "signed": signed,
    "self-loops": self_loops,
    "isolated": isolated,
}
