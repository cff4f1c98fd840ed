"""Graphs, kernels and questions that nobody would choose: what Hypothesis draws from."""

import numpy as np
from hypothesis import strategies as st

import walkernel as wk

seeds = st.integers(0, 2**32 - 1)
decades = st.floats(-4, 4).map(lambda x: float(f"{10.0**x:.3g}"))


def from_matrix(A, directed=None):
    return wk.Graph.from_scipy(A, directed=directed)


def symmetric(upper):
    upper = np.triu(upper, 1)
    return upper + upper.T


def random_part(rng, n, p):
    return symmetric((rng.random((n, n)) < p).astype(float))


def hub(rng, n):
    A = random_part(rng, n, 0.2)
    A[0, 1:] = A[1:, 0] = 1.0
    return from_matrix(A)


def bridge(rng, n):
    A = np.zeros((2 * n, 2 * n))
    A[:n, :n] = A[n:, n:] = 1.0 - np.eye(n)
    A[0, n] = A[n, 0] = 10.0 ** rng.uniform(-9, 0)
    return from_matrix(A)


def lognormal(rng, n):
    A = random_part(rng, n, 0.4) * symmetric(np.exp(rng.uniform(0, 4) * rng.standard_normal((n, n))))
    return from_matrix(A)


def signed(rng, n):
    return from_matrix(random_part(rng, n, 0.4) * symmetric(rng.choice([-1.0, 1.0, 2.0], (n, n))))


def directed(rng, n):
    A = (rng.random((n, n)) < 0.3) * np.exp(rng.standard_normal((n, n)))
    np.fill_diagonal(A, 0.0)
    return from_matrix(A, directed=True)


def dangling(rng, n):
    A = (rng.random((n, n)) < 0.3) * np.exp(rng.uniform(0, 3) * rng.standard_normal((n, n)))
    A[rng.random(n) < 0.3] = 0.0
    return from_matrix(A, directed=True)


def loops(rng, n):
    return from_matrix(random_part(rng, n, 0.3) + np.diag(rng.integers(0, 3, n).astype(float)))


def isolated(rng, n):
    return wk.Graph.from_edges([(0, 1), (1, 2)], n_nodes=n + 2)


def bipartite(rng, n):
    A = random_part(rng, n, 0.6)
    A[: n // 2, : n // 2] = A[n // 2 :, n // 2 :] = 0.0
    return from_matrix(A)


def alone(rng, n):
    return wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=1)


def pair(rng, n):
    return wk.Graph.from_edges([(0, 1)], weights=[10.0 ** rng.uniform(-8, 8)])


def disconnected(rng, n):
    A = np.zeros((2 * n, 2 * n))
    A[:n, :n], A[n:, n:] = random_part(rng, n, 0.5), random_part(rng, n, 0.5)
    return from_matrix(A)


KINDS = (
    hub, bridge, lognormal, signed, directed, dangling, loops, isolated, bipartite, alone, pair, disconnected,
)  # fmt: skip


def make_graph(kind, seed, n):
    return kind(np.random.default_rng(seed), n)


graphs = st.builds(make_graph, st.sampled_from(KINDS), seeds, st.integers(3, 9))
powers = st.sampled_from((0.5, 1.0, 1.5, 2.0, 3.0))
lists = st.lists(st.floats(-2, 2), min_size=1, max_size=4)
matrices = st.sampled_from(("normalized", "normalized", "combinatorial", "adjacency", "random-walk"))


@st.composite
def kernels(draw, matrices=matrices):
    """One of the named kernels, its parameter anywhere in eight decades, or a combination of two."""
    matrix, width = draw(matrices), draw(decades)
    made = {
        "diffusion": lambda: wk.Diffusion(width, matrix=matrix),
        "laplacian": lambda: wk.RegularizedLaplacian(draw(powers), width, matrix=matrix),
        "matern": lambda: wk.Matern(draw(powers), width, matrix=matrix),
        "p-step": lambda: wk.PStepRandomWalk(draw(st.integers(1, 1000)), matrix=matrix),
        "cosine": lambda: wk.InverseCosine(width, matrix=matrix),
        "pagerank": lambda: wk.PageRank(draw(st.floats(0.01, 0.99)), matrix=matrix),
        "list": lambda: wk.PowerSeries(draw(lists), matrix=matrix),
        "sum": lambda: wk.Diffusion(width, matrix=matrix) + wk.Matern(1.5, draw(decades), matrix=matrix),
        "multiple": lambda: 10.0 ** draw(st.integers(-80, 80)) * wk.Diffusion(width, matrix=matrix),
    }  # fmt: skip
    return made[draw(st.sampled_from(sorted(made)))]()


options = st.sampled_from(
    [{}, {}, {"n_walks": 64}, {"n_walks": 256}, {"budget": 8000}, {"n_walks": 64, "pair": "lazy"},
     {"n_walks": 64, "ensembles": "independent"}, {"n_walks": 32, "stitches": 3}]
)  # fmt: skip
