"""Random graphs, determined by their seed; time and memory are proportional to the number of edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_number, refuse, whole_number
from walkernel.datasets._dataset import Dataset
from walkernel.datasets._shapes import GENERATED
from walkernel.graph import Graph

MAX_SWITCHES = 10_000
"""Maximum number of attempts to switch one edge before the whole graph is drawn again."""


def erdos_renyi(n_nodes: int = 100, p_edge: float = 0.04, *, seed: int = 0) -> Dataset:
    """Return a graph G(n, p) in which every pair of nodes is an edge with the same probability.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    p_edge : float
        Probability of each edge, 0 to 1: nodes have p_edge · (n_nodes − 1) edges on average.
    seed : int
        Seed of the draw.

    Returns
    -------
    Dataset
        The graph.

    Examples
    --------
    >>> erdos_renyi(1000, 0.01, seed=3).graph.n_nodes
    1000
    """
    size = whole_number("n_nodes", n_nodes, 1)
    chance = _probability("p_edge", p_edge)
    rng = _generator(seed)
    edges = _pairs(_successes(size * (size - 1) // 2, chance, rng))
    return Dataset(name="erdos-renyi", graph=Graph.from_edges(edges, n_nodes=size), licence=GENERATED)


def random_regular(n_nodes: int = 100, degree: int = 4, *, seed: int = 0) -> Dataset:
    """Return a random graph without loops or repeated edges in which every node has ``degree`` edges.

    Half-edges are joined at random; loops and repeats among the joints are then switched with random
    edges until none is left. The draw is close to uniform for degrees small beside √n.

    Parameters
    ----------
    n_nodes : int
        Number of nodes; its product with ``degree`` must be even.
    degree : int
        Number of edges of each node, less than ``n_nodes``.
    seed : int
        Seed of the draw.

    Returns
    -------
    Dataset
        The graph.

    Examples
    --------
    >>> set(random_regular(50, 3).graph.out_degrees().tolist())
    {3.0}
    """
    size = whole_number("n_nodes", n_nodes, 1)
    valence = whole_number("degree", degree, 0, size - 1)
    if size * valence % 2:
        odd = Described(f"{size} × {valence}")
        refuse("n_nodes × degree", "even, as every edge has two ends", odd)
    rng = _generator(seed)
    dense = 2 * valence > size - 1
    edges = _regular_edges(size, size - 1 - valence if dense else valence, rng)
    if dense:
        every = _pairs(np.arange(size * (size - 1) // 2))
        edges = every[~np.isin(_keys(every, size), _keys(edges, size))]
    return Dataset(name="d-regular", graph=Graph.from_edges(edges, n_nodes=size), licence=GENERATED)


def barabasi_albert(n_nodes: int = 100, n_links: int = 2, *, seed: int = 0) -> Dataset:
    """Return a graph grown node by node, each new one linked to old ones in proportion to their degrees.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    n_links : int
        Number of edges of a new node; growth begins with a star of ``n_links`` + 1 nodes.
    seed : int
        Seed of the draw.

    Returns
    -------
    Dataset
        The graph.

    Examples
    --------
    >>> barabasi_albert(200, 3).graph.n_edges
    591
    """
    size = whole_number("n_nodes", n_nodes, 2)
    links = whole_number("n_links", n_links, 1, size - 1)
    rng = _generator(seed)
    ends = [end for leaf in range(1, links + 1) for end in (0, leaf)]
    for node in range(links + 1, size):
        chosen: dict[int, None] = {}
        while len(chosen) < links:
            chosen[ends[int(rng.random() * len(ends))]] = None
        for other in chosen:
            ends += (other, node)
    graph = Graph.from_edges(np.array(ends).reshape(-1, 2), n_nodes=size)
    return Dataset(name="barabasi-albert", graph=graph, licence=GENERATED)


def stochastic_block_model(
    sizes: Sequence[int] = (40, 40, 40), p_within: float = 0.2, p_between: float = 0.02, *, seed: int = 0
) -> Dataset:
    """Return a graph of blocks, with more or fewer edges inside them than between them.

    Parameters
    ----------
    sizes : sequence of int
        Number of nodes of each block.
    p_within : float
        Probability of an edge inside a block, 0 to 1.
    p_between : float
        Probability of an edge between two blocks, 0 to 1. Blocks are the harder to find the closer it is to
        ``p_within``.
    seed : int
        Seed of the draw.

    Returns
    -------
    Dataset
        The graph, with the block of each node as ``labels``.

    Examples
    --------
    >>> stochastic_block_model((30, 20), 0.5, 0.05).labels.tolist().count(1)
    20
    """
    if isinstance(sizes, (str, bytes)) or not hasattr(sizes, "__len__") or len(sizes) == 0:
        refuse("sizes", "a non-empty list of block sizes", sizes, error=TypeError)
    blocks = [whole_number(f"sizes[{i}]", size, 1) for i, size in enumerate(sizes)]
    inside = _probability("p_within", p_within)
    outside = _probability("p_between", p_between)
    rng = _generator(seed)
    first = np.concatenate([[0], np.cumsum(blocks)])
    parts = []
    for i, rows in enumerate(blocks):
        parts.append(first[i] + _pairs(_successes(rows * (rows - 1) // 2, inside, rng)))
        for j in range(i + 1, len(blocks)):
            across = np.divmod(_successes(rows * blocks[j], outside, rng), blocks[j])
            parts.append(np.stack([first[i] + across[0], first[j] + across[1]], axis=1))
    graph = Graph.from_edges(np.concatenate(parts), n_nodes=int(first[-1]))
    labels = np.repeat(np.arange(len(blocks)), blocks)
    names = tuple(f"block {i}" for i in range(len(blocks)))
    return Dataset(
        name="stochastic-block-model", graph=graph, labels=labels, label_names=names, licence=GENERATED
    )


def _probability(parameter: str, value: float) -> float:
    number = real_number(parameter, value, minimum=0.0)
    if number > 1:
        refuse(parameter, "a probability from 0 to 1", value)
    return number


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(whole_number("seed", seed, 0))


def _successes(n_trials: int, chance: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the positions of successes among independent trials, by the gaps between them."""
    if chance == 0 or n_trials == 0:
        return np.empty(0, dtype=np.int64)
    mean = n_trials * chance
    batch_size = int(mean + 4 * np.sqrt(mean) + 16)
    parts, last = [], -1
    while last < n_trials:
        gaps = np.minimum(rng.geometric(chance, size=batch_size), n_trials + 1)
        parts.append(last + np.cumsum(gaps))
        last = int(parts[-1][-1])
    found = np.concatenate(parts)
    return found[found < n_trials]


def _pairs(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pairs j < i with rank i (i − 1) / 2 + j, (m, 2)."""
    larger = ((1 + np.sqrt(1 + 8.0 * ranks)) / 2).astype(np.int64)
    larger -= larger * (larger - 1) // 2 > ranks
    larger += larger * (larger + 1) // 2 <= ranks
    return np.stack([ranks - larger * (larger - 1) // 2, larger], axis=1)


def _keys(edges: NDArray[np.int64], n_nodes: int) -> NDArray[np.int64]:
    """Return one number for each edge, whichever of its ends comes first."""
    return edges.min(axis=1) * n_nodes + edges.max(axis=1)


def _regular_edges(n_nodes: int, degree: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the edges of a random regular graph; degree at most (n − 1) / 2."""
    while True:
        edges = rng.permutation(np.repeat(np.arange(n_nodes), degree)).reshape(-1, 2)
        if _switch_repeats(edges, n_nodes, rng):
            return edges


def _switch_repeats(edges: NDArray[np.int64], n_nodes: int, rng: np.random.Generator) -> bool:
    """Exchange ends of loops and repeats with those of random edges, in place; return whether it worked."""
    keys = _keys(edges, n_nodes)
    values, counts = np.unique(keys, return_counts=True)
    change: dict[int, int] = {}

    def count(key: int) -> int:
        place = int(np.searchsorted(values, key))
        known = int(counts[place]) if place < values.size and values[place] == key else 0
        return known + change.get(key, 0)

    def key_of(a: int, b: int) -> int:
        return min(a, b) * n_nodes + max(a, b)

    bad = np.isin(keys, values[counts > 1]) | (edges[:, 0] == edges[:, 1])
    for i in np.flatnonzero(bad).tolist():
        for _ in range(MAX_SWITCHES):
            a, b = edges[i].tolist()
            if a != b and count(key_of(a, b)) == 1:
                break
            j = int(rng.integers(len(edges)))
            c, d = edges[j, :: 1 if rng.random() < 0.5 else -1].tolist()
            new = (key_of(a, c), key_of(b, d))
            if j == i or a == c or b == d or new[0] == new[1] or count(new[0]) or count(new[1]):
                continue
            for key, step in ((key_of(a, b), -1), (key_of(c, d), -1), (new[0], 1), (new[1], 1)):
                change[key] = change.get(key, 0) + step
            edges[i], edges[j] = (a, c), (b, d)
        else:
            return False
    return True
