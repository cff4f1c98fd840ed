"""What a push needs to know of a graph and a kernel: M in units of g, the series, and walks the other way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._philox import key_words
from walkernel.features import Lazy, adjacency_bound, find_series
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._push import (
    CANDIDATE,
    PLACE,
    RESIDUE,
    SMALLEST_TABLE,
    Answer,
    Room,
    Series,
    Steps,
    Walking,
)
from walkernel.walks import StepLaw, hop_table, read_only, walk_table

MAX_TERMS = 2**10
"""Terms of the longest series that is pushed hop by hop."""
MAX_GEOMETRIC_TERMS = 2**14
"""Steps of the longest walk for a geometric series."""
ROUNDING, TINY = 1e-15, 1e-280
"""Losses by rounding, relative to the sum of the series: of values of both signs, and of positive ones."""
SOME_EIGENVALUES = np.linspace(-1.0, 1.0, 65)
"""Eigenvalues of M, in units of the bound on them, where the size of a kernel is looked at."""
MAX_ROUNDING = 1e-9
"""What rounding may add to values, relative to the largest eigenvalue of the kernel; else terms cancel."""
SERIES_REST = 1e-13
"""What is left of a series beyond its last term, relative to its sum."""
MAX_HUBS = 2**12
CANDIDATES, WALKERS = 2**12, 2**9
FIRST_PLACES = 2**14
MAX_ATTEMPTS = 2**31
"""Attempts after which the hash table is emptied, because their number has 32 bits."""
RATE = 1.1
"""By how much loads may grow with each hop, in units of g, on a directed graph."""
NEARLY = 1.01
"""By how much more they grow where g is found by iteration."""
MAX_PRODUCTS = 200

NO_WORDS = read_only(np.empty(0, dtype=np.uint64))

Floats = NDArray[np.float64]


def steps_of(graph: Graph, kernel: Kernel) -> tuple[Steps, float]:
    """Return M in units of g and a bound on ρ; kept with the graph.

    On undirected graphs g is known. On directed ones it is Σₖ (1|M|/ρ)ᵏ for a ρ above one, as far as it takes
    for g|M| ≤ 1.01 ρ g to hold.
    """
    matrix, rate = kernel.matrix, _rate(kernel) if graph.directed else 1.0
    law = hop_table(graph, matrix, "weights", False)

    def build() -> tuple[Steps, float]:
        g, growth = _units(graph, matrix, law, rate)
        leave = law.leave * g
        leave = leave[:0] if np.allclose(leave, 1.0, rtol=1e-14, atol=0) else leave
        units = np.column_stack([law.enter / g, g])
        hubs, has_all = _hubs(law, g)
        arrays = map(read_only, (law.indptr, law.indices, law.values, leave, units, hubs, g[hubs]))
        volume = float((1 / units[units[:, 0] > 0, 0]).sum())
        return Steps._make([*arrays, has_all, float(g.max(initial=0.0)), volume]), growth

    return graph.derived(("push_steps", matrix, rate), build)


def _hubs(law: StepLaw, g: Floats) -> tuple[NDArray[np.int64], bool]:
    """Return the nodes of the largest g that some edge leads to, and whether they are all such nodes."""
    is_reached = np.zeros(g.size, dtype=bool)
    is_reached[law.indices] = True
    nodes = np.flatnonzero(is_reached)
    if nodes.size > MAX_HUBS:
        nodes = nodes[np.argpartition(-g[nodes], MAX_HUBS)[:MAX_HUBS]]
    order = np.argsort(-g[nodes], kind="stable")
    return nodes[order], int(is_reached.sum()) <= MAX_HUBS


def _rate(kernel: Kernel) -> float:
    """Return by how much loads may grow with each hop so that the series still converges fast."""
    return float(min(RATE, np.sqrt(kernel.radius)))


def _units(graph: Graph, matrix: str, law: StepLaw, rate: float) -> tuple[Floats, float]:
    """Return g > 0 and ρ with g|M| ≤ ρg, M being that of the law."""
    if graph.directed:
        return _iterated_units(law, rate)
    if matrix == "combinatorial":
        return np.ones(graph.n_nodes), 1.0
    if matrix == "adjacency":
        bound = adjacency_bound(graph)
        return bound.vector.copy(), bound.upper * float(law.leave.max(initial=0.0))
    degrees = graph.out_degrees()
    g = np.sqrt(degrees) if matrix == "normalized" else degrees.copy()
    g[g <= 0] = 1.0
    return g, 1.0


def _iterated_units(law: StepLaw, rate: float) -> tuple[Floats, float]:
    """Return g = 1 + 1|M|/ρ + 1(|M|/ρ)² + … as far as it takes, and by how much g|M| can exceed g."""
    values = np.abs(law.values) if law.values.size else np.ones(law.indices.size)
    n = law.enter.size
    pattern = scipy.sparse.csr_array((values, law.indices, law.indptr), shape=(n, n)).T
    g, term = np.ones(n), np.ones(n)
    for _ in range(MAX_PRODUCTS):
        term = np.abs(law.enter) * (pattern @ (np.abs(law.leave) * term)) / rate
        excess = float(((term - 1) / g).max(initial=0.0))
        if excess <= NEARLY - 1:
            break
        g += term
    return g, rate * (1 + max(0.0, excess))


def series_of(graph: Graph, kernel: Kernel) -> Series | None:
    """Return the terms of a kernel for loads of its hop table; None for one that is not pushed."""
    if graph.directed and kernel.matrix == "adjacency":
        return None
    growth = steps_of(graph, kernel)[1]
    is_signed = graph.weights is not None and bool((graph.weights < 0).any())
    return graph.derived(
        ("push_series", kernel, growth, is_signed), lambda: _series(graph, kernel, growth, is_signed)
    )


def _series(graph: Graph, kernel: Kernel, growth: float, is_signed: bool) -> Series | None:
    scale = 1.0
    if kernel.matrix == "adjacency":
        leave = hop_table(graph, kernel.matrix, "weights", False).leave
        scale = 1.0 / float(leave.max(initial=0.0)) if leave.size and leave.max() > 0 else 1.0
    first = Lazy(kernel).values(64, scale)
    ratio = _ratio(first)
    if ratio > 0 and ratio * growth < 1:
        tail = first[0] * ratio * growth / (1 - ratio * growth)
        length = int(min(MAX_GEOMETRIC_TERMS, 2 + np.log(SERIES_REST) / np.log(ratio)))
        terms = first[0] * ratio ** np.arange(length)
        rounding = (ROUNDING if is_signed else TINY) * (first[0] + tail)
        return Series(read_only(terms), read_only(np.array([tail])), 1.0, ratio, rounding, is_signed)
    series = find_series(kernel, 1.0, growth * scale, SERIES_REST)
    sizes = series.sizes
    total = float(sizes.sum())
    beyond = np.append(np.cumsum(sizes[::-1])[::-1][1:], 0.0)
    length = int(np.argmax(beyond <= SERIES_REST * total)) + 1
    if not series.missing <= SERIES_REST * total or length > MAX_TERMS:
        return None
    terms = Lazy(kernel).values(length, scale)
    values = np.polynomial.polynomial.polyval(SOME_EIGENVALUES, np.sign(terms) * sizes[:length])
    if ROUNDING * total > MAX_ROUNDING * np.abs(values).max():
        return None
    tails, spread = _tails(sizes[:length], growth)
    rest = float(beyond[length - 1]) + series.missing
    signs = is_signed or bool((terms < 0).any())
    return Series(read_only(terms), read_only(tails), spread, 0.0, rest, signs)


def _ratio(terms: Floats) -> float:
    """Return c if all terms are α₀cᵏ with c > 0, else 0."""
    if not (terms[0] > 0 and terms[1] > 0):
        return 0.0
    ratio = float(terms[1] / terms[0])
    return ratio if np.allclose(terms, terms[0] * ratio ** np.arange(terms.size), rtol=1e-12, atol=0) else 0.0


def _tails(sizes: Floats, growth: float) -> tuple[Floats, float]:
    """Return tail_h for loads that grow at each hop, and β; ``sizes`` are |αₖ|ρᵏ."""
    sums = np.append(np.cumsum(sizes[::-1])[::-1][1:], 0.0)  # Σ_{j≥1} |α_{h+j}| ρ^{h+j}
    spread = 0.0
    for step in range(1, sizes.size):
        later, rest = sizes[step:], sums[: sizes.size - step]
        spread += float(np.max(np.divide(later, rest, out=np.zeros_like(later), where=rest > 0)))
    return sums / growth ** np.arange(sizes.size), spread


def walking_of(graph: Graph, kernel: Kernel, series: Series, seed: int) -> Walking:
    """Return how walks go that estimate what a push leaves; none on matrices where that has no bound."""
    key = key_words(seed)
    ends = series.ratio == 0 or series.terms[-1] <= 2 * SERIES_REST * series.terms[0]
    if graph.directed or kernel.matrix == "adjacency" or series.is_signed or not ends:
        return Walking(NO_WORDS, read_only(graph.indices), NO_WORDS, *key)
    table = walk_table(graph, kernel.matrix, "weights", False)
    return Walking(read_only(table.packed), table.indices, table.alias, *key)


def make_room(places: int, k: int, n_lengths: int) -> Room:
    """Return arrays for a push that reaches so many nodes, and for walks of so many lengths."""
    return Room(
        slots=np.zeros(max(SMALLEST_TABLE, 1 << (4 * places - 1).bit_length()), np.uint64),
        state=np.zeros(2, np.uint64),
        places=np.zeros(places, PLACE),
        residues=np.empty(4 * places, RESIDUE),
        queue=np.empty((2, places), np.int64),
        sizes=np.empty(places),
        candidates=np.zeros(CANDIDATES, CANDIDATE),
        law=np.empty((2, n_lengths)),
        walkers=np.empty((3, WALKERS), np.int64),
        words=np.empty((3, WALKERS), np.uint64),
        found=np.empty(WALKERS),
        kept=np.empty((2, k)),
    )


class Rooms:
    """The rooms of a graph's pushes, lent to one thread at a time and kept for the next call."""

    def __init__(self) -> None:
        self._spare: list[Room] = []
        self.places = FIRST_PLACES

    @contextmanager
    def lend(self, k: int, n_lengths: int) -> Iterator[Room]:
        """Lend a room; that of an error is not used again."""
        room = self._spare.pop() if self._spare else make_room(self.places, k, n_lengths)
        if room.sizes.size < self.places:
            room = make_room(self.places, k, n_lengths)
        if room.law.shape[1] != n_lengths or room.kept.shape[1] != k:
            room = room._replace(law=np.empty((2, n_lengths)), kept=np.empty((2, k)))
        if room.state[0] > MAX_ATTEMPTS:
            room.slots[:] = 0
            room.state[0] = 0
        yield room
        self._spare.append(room)

    def grow(self, room: Room) -> None:
        """Make rooms larger than one that was too small."""
        self.places = max(self.places, 4 * room.sizes.size)


def make_answer(n: int, k: int) -> Answer:
    """Return arrays for the k nearest nodes of n nodes."""
    nodes, values = np.full((n, k), -1, dtype=np.int64), np.full((3, n, k), np.nan)
    costs, status = np.zeros((n, 2), np.int64), np.ones(n, np.uint8)
    return Answer(nodes, values, np.full(n, np.inf), costs, status)
