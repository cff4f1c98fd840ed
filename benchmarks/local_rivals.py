"""Ways to one row of a kernel: those of other packages, of SciPy, and textbook ways that are easily made.

A way takes the graph once, which is not timed, and then answers for nodes. Its settings go from cheap to
dear. Teleport probabilities are translated: α = 1 − c where the walk moves at each step, and
α = (1 − c)/(1 + c) where it stays with probability ½ (NetworKit, localgraphclustering). ``check_ways``
compares each way with the dense kernel of a small graph.

Some ways are left out. scikit-network's solver "push" does not compute personalised PageRank: it starts from
residuals of all nodes. NetworKit's ``centrality.PageRank`` takes no personalisation. Of localgraphclustering,
"l1reg" minimises another function, in Python loops over all nodes, and "l1reg-rand" is off by half on the
small graph. No package was found that has the heat kernel of one node of a large graph; SciPy's
``expm_multiply`` serves for it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray
from rivals import LocalSeries, series

import walkernel as wk

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

PPR, HEAT = "PPR", "heat"
EVERY_STEP = 2**31 - 1
THRESHOLDS = tuple(float(f"{x:.2g}") for x in 10 ** np.arange(-3, -10.1, -0.5))
RESTS = (1e-2, 1e-5)
"""Parts of a series beyond its last term."""

EQUAL = 2e-3
"""Relative difference at most of a way, at its accurate setting, and the dense kernel."""


class Case:
    """A graph and a kernel to ask about; what is made of the graph is kept for its other kernels."""

    def __init__(self, graph: wk.Graph, kernel: Any, made: dict[str, Any]) -> None:
        self.graph, self.kernel, self._made = graph, kernel, made

    @property
    def family(self) -> str:
        """PPR or HEAT."""
        return PPR if isinstance(self.kernel, wk.PageRank) else HEAT

    @property
    def damping(self) -> float:
        """The probability c to go on, of a PageRank kernel."""
        return float(self.kernel.damping)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` made for this graph the first time."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def adjacency(self) -> scipy.sparse.csr_matrix:
        """Return A as the packages want it."""
        return self.once("A", lambda: scipy.sparse.csr_matrix(self.graph.to_scipy("adjacency")))

    def matrix(self) -> scipy.sparse.csr_array:
        """Return the matrix of the kernel."""
        matrix = self.kernel.matrix
        return self.once(matrix, lambda: self.graph.to_scipy(matrix))


Ask = Callable[[Any, Ids], Any]


class Way(NamedTuple):
    """How a row is found; ``prepare`` returns a function of a setting and the nodes, which is timed."""

    name: str
    group: str
    """The column of the tables; the best way of a group counts."""

    families: tuple[str, ...]
    settings: tuple[Any, ...]
    prepare: Callable[[Case], Ask]
    rows: Callable[[Any, Ids, int], Floats]
    """From an answer, the nodes and their number to dense rows; not timed."""

    accurate: Any
    """A setting for ``check_ways``."""

    package: str = ""
    together: bool = False
    """Whether all nodes are asked for in one call."""

    most_nodes: int = 2**31


def as_they_are(answer: Any, nodes: Ids, n: int) -> Floats:
    return np.asarray(answer, dtype=np.float64).reshape(nodes.size, n)


def columns(answer: Any, nodes: Ids, n: int) -> Floats:
    return as_they_are(np.asarray(answer).reshape(n, -1).T, nodes, n)


def scattered_entries(answer: Any, nodes: Ids, n: int) -> Floats:
    """Return the row of (ids, values)."""
    row = np.zeros((1, n))
    row[0, np.asarray(answer[0])] = answer[1]
    return row


def listed_pairs(answer: Any, nodes: Ids, n: int) -> Floats:
    """Return the row of pairs (id, value)."""
    pairs = np.array(answer).reshape(-1, 2)
    return scattered_entries((pairs[:, 0].astype(np.int64), pairs[:, 1]), nodes, n)


# other packages -----------------------------------------------------------------------------------


def torch_geometric_push(case: Case) -> Ask:
    """``get_ppr`` of an EdgeIndex that is sorted and has its row pointers, so that it sorts nothing again."""
    import torch
    from torch_geometric import EdgeIndex
    from torch_geometric.utils import get_ppr

    n, alpha = case.graph.n_nodes, 1 - case.damping

    def convert() -> Any:
        edges = case.adjacency().tocoo()
        pairs = torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64))
        index = EdgeIndex(pairs, sparse_size=(n, n), sort_order="row")
        index.get_csr()
        return index

    index = case.once("EdgeIndex", convert)
    return lambda eps, nodes: get_ppr(index, alpha, eps, torch.from_numpy(nodes), n)


def edges_of_pyg(answer: Any, nodes: Ids, n: int) -> Floats:
    return scattered_entries((answer[0][1].numpy(), answer[1].numpy()), nodes, n)


def scikit_network(solver: str, option: str) -> Callable[[Case], Ask]:
    """``PageRank.fit_predict`` with a solver; it divides A by its degrees in each call."""

    def prepare(case: Case) -> Ask:
        from sknetwork.ranking import PageRank

        A, damping = case.adjacency(), case.damping

        def ask(setting: float, nodes: Ids) -> Any:
            options = {"tol": 0.0} | {option: setting}
            model = PageRank(damping, solver=solver, **options)
            return model.fit_predict(A, weights={int(nodes[0]): 1.0})

        return ask

    return prepare


def scikit_network_loop(case: Case) -> Ask:
    """``diffusion``, the compiled loop of the solver "diteration", of arrays that are made before."""
    from sknetwork.linalg.diteration import diffusion
    from sknetwork.linalg.normalizer import normalize

    def convert() -> Any:
        P = normalize(case.adjacency(), p=1)
        return P.indptr.astype(np.int32), P.indices.astype(np.int32), P.data.astype(np.float32)

    arrays, n, damping = case.once("diteration", convert), case.graph.n_nodes, case.damping

    def ask(n_iter: int, nodes: Ids) -> Any:
        scores, fluid = np.zeros((2, n), dtype=np.float32)
        fluid[nodes[0]] = 1 - damping
        diffusion(*arrays, scores, fluid, damping, n_iter, 0.0)
        return scores

    return ask


def igraph_pagerank(case: Case) -> Ask:
    """``personalized_pagerank`` by PRPACK or ARPACK, neither of which has a tolerance."""
    import igraph

    def convert() -> Any:
        edges = scipy.sparse.triu(case.adjacency(), k=1).tocoo()
        return igraph.Graph(case.graph.n_nodes, np.stack([edges.row, edges.col], axis=1))

    graph, damping = case.once("igraph", convert), case.damping

    def ask(solver: str, nodes: Ids) -> Any:
        return graph.personalized_pagerank(
            reset_vertices=[int(nodes[0])], damping=damping, implementation=solver
        )

    return ask


def networkit_push(case: Case) -> Ask:
    """``scd.ApproximatePageRank``, a push in C++."""
    import networkit

    networkit.setNumberOfThreads(1)

    def convert() -> Any:
        edges = scipy.sparse.triu(case.adjacency(), k=1).tocoo()
        return networkit.GraphFromCoo(edges, n=case.graph.n_nodes, directed=False)

    graph, lazy = case.once("networkit", convert), (1 - case.damping) / (1 + case.damping)
    return lambda eps, nodes: networkit.scd.ApproximatePageRank(graph, lazy, eps).run(int(nodes[0]))


def localgraphclustering_push(case: Case) -> Ask:
    """``approximate_PageRank``, method "acl", a push in C++, with no limit on its steps."""
    import localgraphclustering as lgc

    graph = case.once("lgc", lambda: lgc.GraphLocal.from_sparse_adjacency(case.adjacency()))
    lazy = (1 - case.damping) / (1 + case.damping)

    def ask(rho: float, nodes: Ids) -> Any:
        return lgc.approximate_PageRank(
            graph, [int(nodes[0])], alpha=lazy, rho=rho, iterations=EVERY_STEP, normalize=False
        )

    return ask


def networkx_pagerank(case: Case) -> Ask:
    """``pagerank`` with a personalisation, by SciPy; it converts the graph in each call."""
    import networkx

    graph = case.once("networkx", lambda: networkx.from_scipy_sparse_array(case.adjacency()))
    n, damping = case.graph.n_nodes, case.damping

    def ask(tol: float, nodes: Ids) -> Any:
        start = {int(nodes[0]): 1.0}
        return networkx.pagerank(graph, alpha=damping, personalization=start, tol=tol / n, max_iter=10_000)

    return ask


def values_by_node(answer: Any, nodes: Ids, n: int) -> Floats:
    return as_they_are([answer[i] for i in range(n)], nodes, n)


def scipy_expm(case: Case) -> Ask:
    """``expm_multiply``, of a matrix that is scaled before, and with its trace."""
    t = case.kernel.lengthscale**2 / 2
    identity = scipy.sparse.eye_array(case.graph.n_nodes, format="csr")
    generator = scipy.sparse.csr_array(t * (case.matrix().T - identity))
    trace, n = float(generator.trace()), case.graph.n_nodes

    def ask(setting: str, nodes: Ids) -> Any:
        start = np.zeros((n, nodes.size))
        start[nodes, np.arange(nodes.size)] = 1.0
        return scipy.sparse.linalg.expm_multiply(generator, start, traceA=trace)

    return ask


# textbook ways, and ours --------------------------------------------------------------------------


def whole_series(case: Case) -> Ask:
    """Σ αₖ (Mᵀ)ᵏ e by SciPy's products with a transpose that is made before."""
    transposed = case.once(f"{case.kernel.matrix} transposed", case.matrix().T.tocsr)
    all_terms = {rest: series(case.kernel, rest, root=False) for rest in SERIES_RESTS}

    def ask(rest: float, nodes: Ids) -> Floats:
        power = np.zeros(case.graph.n_nodes)
        power[nodes[0]] = 1.0
        terms = all_terms[rest]
        total = terms[0] * power
        for term in terms[1:]:
            power = transposed @ power
            total += term * power
        return total

    return ask


SERIES_RESTS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def polynomial(case: Case) -> Ask:
    """``wk.polynomial_operator(...).rows``."""
    graph, kernel = case.graph, case.kernel
    operators = {tol: wk.polynomial_operator(graph, kernel, tol=tol) for tol in POLYNOMIAL_TOLS}
    return lambda tol, nodes: operators[tol].rows(nodes)


POLYNOMIAL_TOLS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


def local_series(name: str) -> Callable[[Case], Ask]:
    """Return the series on a ball, or that whose powers are pruned, of ``LocalSeries``."""

    def prepare(case: Case) -> Ask:
        key = f"local series {case.kernel.matrix}"
        local = case.once(key, lambda: LocalSeries(case.matrix()))
        terms = {rest: series(case.kernel, rest, root=False) for rest in RESTS}
        return lambda setting, nodes: getattr(local, name)(int(nodes[0]), setting[0], terms[setting[1]])

    return prepare


ALL_SIZES = tuple(2**k for k in range(5, 21, 2))
ITERATIONS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90)
BOTH = (PPR, HEAT)
WAYS = (
    Way("PyG get_ppr", "PyG", (PPR,), THRESHOLDS, torch_geometric_push, edges_of_pyg, 1e-6,
        package="torch_geometric"),
    Way("NetworKit ApproximatePageRank", "NetworKit", (PPR,), THRESHOLDS, networkit_push, listed_pairs,
        1e-9, package="networkit"),
    Way("localgraphclustering acl", "lgc", (PPR,), THRESHOLDS, localgraphclustering_push, scattered_entries,
        1e-9, package="localgraphclustering"),
    *(
        Way(f"igraph {solver}", "igraph", (PPR,), (solver,), igraph_pagerank, as_they_are, solver,
            package="igraph")
        for solver in ("prpack", "arpack")
    ),
    *(
        Way(f"scikit-network {solver}", "sknetwork", (PPR,), settings, scikit_network(solver, option),
            as_they_are, accurate, package="sknetwork")
        for solver, option, settings, accurate in (
            ("piteration", "n_iter", ITERATIONS, 300),
            ("RH", "n_iter", ITERATIONS, 300),
            ("diteration", "n_iter", ITERATIONS, 300),
            ("bicgstab", "tol", (1e-5,), 1e-5),
            ("lanczos", "tol", (1e-2, 1e-4, 1e-6, 1e-8), 1e-8),
        )
    ),
    Way("scikit-network diteration, loop", "sknetwork", (PPR,), ITERATIONS, scikit_network_loop, as_they_are,
        300, package="sknetwork"),
    Way("networkx", "networkx", (PPR,), (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8), networkx_pagerank,
        values_by_node, 1e-8, package="networkx", most_nodes=50_000),
    Way("expm_multiply", "expm", (HEAT,), ("",), scipy_expm, columns, ""),
    Way("expm_multiply, together", "expm all", (HEAT,), ("",), scipy_expm, columns, "", together=True),
    Way("series, SciPy", "series", BOTH, SERIES_RESTS, whole_series, as_they_are, SERIES_RESTS[-1]),
    Way("polynomial", "polynomial", BOTH, POLYNOMIAL_TOLS, polynomial, as_they_are, POLYNOMIAL_TOLS[-1]),
    Way("polynomial, together", "poly all", BOTH, POLYNOMIAL_TOLS, polynomial, as_they_are,
        POLYNOMIAL_TOLS[-1], together=True),
    Way("ball", "ball", BOTH, tuple(product(range(1, 41), RESTS)), local_series("ball"), scattered_entries,
        (30, RESTS[-1])),
    Way("pruned series", "pruned", BOTH, tuple(product(ALL_SIZES, RESTS)), local_series("pruned"),
        scattered_entries, (ALL_SIZES[-1], RESTS[-1])),
)  # fmt: skip


def installed_ways() -> tuple[list[Way], list[str]]:
    """Return the ways whose packages can be imported, and a line for each package that cannot."""
    found, lines = [], []
    failed: set[str] = set()
    for way in WAYS:
        if way.package and way.package not in failed:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    importlib.import_module(way.package)
            except Exception as error:
                failed.add(way.package)
                reason = str(error).strip().splitlines()[0] if str(error) else ""
                lines.append(f"{way.package} is skipped: {type(error).__name__}: {reason}")
        if way.package not in failed:
            found.append(way)
    return found, lines


PACKAGES = (
    "torch_geometric", "torch", "networkit", "localgraphclustering", "igraph", "scikit-network", "networkx",
)  # fmt: skip


def versions() -> str:
    """Return the names and versions of the packages that are there."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def check_ways(ways: list[Way], kernels: dict[str, wk.Kernel]) -> None:
    """Raise an AssertionError unless each way computes the rows of the dense kernel of a small graph."""
    graph = wk.datasets.barabasi_albert(200, 3).graph
    made: dict[str, Any] = {}
    for name, kernel in kernels.items():
        case, exact = Case(graph, kernel, made), wk.exact_kernel(graph, kernel)
        for way in ways:
            if case.family not in way.families:
                continue
            nodes = np.array([7, 150]) if way.together else np.array([150])
            answer = way.prepare(case)(way.accurate, nodes)
            row = way.rows(answer, nodes, graph.n_nodes)
            is_large = exact[nodes] > 1 / graph.n_nodes
            error = float(np.max((np.abs(row - exact[nodes]) / exact[nodes])[is_large]))
            if not error <= EQUAL:
                raise AssertionError(f"{way.name} does not compute {name}: it is off by {error:.2g}")
