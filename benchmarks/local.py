"""Who is first to the nearest nodes of a few nodes of a huge graph, at equal error.

    WALKERNEL_DATA=FOLDER python benchmarks/local.py [--quick] [--out FOLDER] [--resume]
        [--graphs random,grid] [--kernels "heat 5"] [--ways ball,PyG] [--queries N] [--limit SECONDS]

A graph and a kernel that are done are written to FOLDER/local.csv at once; --resume keeps those found there.
The interpreter needs ``benchmarks/local_requirements.txt``; a package that is missing is skipped. Everything
runs in one thread, and times are processor times, which other processes hardly change. What is made of a
graph once (conversions, tables, transposes) is not timed for anybody, and the least time of up to three runs
of a query counts. A way has settings from cheap to dear, and the first of them whose error over all queries
meets a target counts: the truth chooses the setting, which favours the rivals. ``wk.nearest`` is asked for
the 20 nearest nodes with the target as its tolerance.

Errors are relative, the largest over all queries, and of two kinds: over all entries of a row above 1/N, and
over those of them that belong to the true 20 nearest nodes. The second kind is what an answer of
``wk.nearest`` can be compared with; its own error is that of the values it returns, above 1/N. To rank the
nodes of a row that a rival has returned is not timed. The truth is a polynomial to 1e-12.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numba
import numpy as np
from core import machine, table
from local_rivals import HEAT, PPR, Ask, Case, Floats, Ids, Way, check_ways, installed_ways, versions
from threadpoolctl import threadpool_limits

import walkernel as wk

K = 20
TARGETS = (0.1, 0.01)
EXACT = 1e-12
MAX_GROWTH = 10
"""How many times longer than the last setting the next one is taken to need at most."""

ROUNDING = 1e-9
"""Relative difference to the k-th nearest value below which a certified node is not called wrong."""

KERNELS: dict[str, wk.Kernel] = {
    "PPR 0.85": wk.PageRank(0.85),
    "PPR 0.5": wk.PageRank(0.5),
    "heat 5": wk.Diffusion(float(np.sqrt(10))),
    "heat 20": wk.Diffusion(float(np.sqrt(40))),
}
GRAPHS: dict[str, Callable[[], wk.Graph]] = {
    "facebook_pages": lambda: wk.load_dataset("facebook_pages").graph,
    "soc_epinions": lambda: wk.load_dataset("soc_epinions").graph,
    "road_fla": lambda: wk.load_dataset("road_fla").graph,
    "Barabasi-Albert": lambda: wk.datasets.barabasi_albert(10**6, 5).graph,
    "random": lambda: wk.datasets.erdos_renyi(10**6, 1e-5).graph,
    "grid": lambda: wk.datasets.grid(1000, 1000).graph,
}
QUICK: dict[str, Callable[[], wk.Graph]] = {
    "small Barabasi-Albert": lambda: wk.datasets.barabasi_albert(10**4, 5).graph,
    "small grid": lambda: wk.datasets.grid(100, 100).graph,
}
NEAREST, NEAREST_ALL = "nearest", "nearest all"


class Point(NamedTuple):
    """One way with one setting on one graph and kernel; errors are the largest over the queries."""

    graph: str
    n_nodes: int
    kernel: str
    way: str
    group: str
    setting: str
    n_queries: int
    is_complete: bool
    """Whether it was asked until the limit; it is left as soon as its error misses every open target."""

    ms: float
    """Median over the queries."""

    ms_p95: float
    error_top: float
    error_row: float
    recall_10: float
    """Share of the 20 best nodes whose true value is at least 1 − 10 % of the 20th largest."""

    recall_1: float
    certified: float = np.nan
    certified_wrong: float = np.nan
    separated_certified: float = np.nan
    """Share of the nodes more than 2ε times the 20th value above the 21st that are certified."""


class Truth:
    """Exact rows of some nodes, and their nearest nodes.

    Attributes
    ----------
    rows : ndarray, (n_queries, n_nodes)
    ranking : ndarray, (n_queries, K + 1)
        The K + 1 nearest nodes, best first.
    last : ndarray, (n_queries,)
        The K-th largest value.
    """

    def __init__(self, case: Case, nodes: Ids) -> None:
        self.nodes, self.floor = nodes, 1 / case.graph.n_nodes
        operator = wk.polynomial_operator(case.graph, case.kernel, tol=EXACT)
        self.rows = np.concatenate([operator.rows(nodes[i : i + 8]) for i in range(0, nodes.size, 8)])
        self.ranking = np.stack(
            [nearest_of(row, node, K + 1) for row, node in zip(self.rows, nodes, strict=True)]
        )
        self.last = self.rows[np.arange(nodes.size), self.ranking[:, K - 1]]

    def errors(self, query: int, row: Floats) -> tuple[float, float]:
        """Return the error over the nearest nodes and that over the row, entries above 1/N."""
        exact = self.rows[query]
        top = self.ranking[query, :K]
        top, large = top[exact[top] > self.floor], np.flatnonzero(exact > self.floor)
        return relative(row[top], exact[top]), relative(row[large], exact[large])

    def recall(self, query: int, found: Ids, tolerance: float) -> float:
        """Return the share of K found nodes whose value is that of a nearest node within a tolerance."""
        return float((self.rows[query, found] >= (1 - tolerance) * self.last[query]).sum() / K)


def relative(found: Floats, exact: Floats) -> float:
    return float(np.max(np.abs(found - exact) / exact, initial=0.0))


def nearest_of(row: Floats, node: int, k: int) -> Ids:
    """Return the k nodes of the largest values, best first, without the node itself."""
    best = np.argpartition(-row, k)[: k + 1]
    best = best[np.lexsort((best, -row[best]))]
    return best[best != node][:k]


class Place(NamedTuple):
    """A graph, a kernel, and the truth about them."""

    graph: str
    kernel: str
    case: Case
    truth: Truth

    def point(self, way: str, group: str, setting: Any, seconds: Sequence[float], *rest: Any) -> Point:
        """Return a point of this graph and kernel."""
        ms = 1e3 * np.array(seconds)
        times = (float(np.median(ms)), float(np.quantile(ms, 0.95)))
        is_complete, *errors = rest
        about = (self.graph, self.case.graph.n_nodes, self.kernel, way, group, str(setting))
        return Point(*about, len(ms), is_complete, *times, *errors)


def timed(attempt: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least processor time of up to three runs that together take half a second, and an answer."""
    best, total = np.inf, 0.0
    for _ in range(3):
        begin = time.process_time()
        answer = attempt()
        passed = time.process_time() - begin
        best, total = min(best, passed), total + passed
        if total > 0.5:
            break
    return best, answer


# ways of others -----------------------------------------------------------------------------------


def measure(place: Place, way: Way, limit: float) -> list[Point]:
    """Try the settings of a way while a target is open and three queries are likely within the limit.

    For all nodes together three times the limit is allowed.
    """
    ask = way.prepare(place.case)
    ask(way.settings[0], other_nodes(place, way))
    targets = {(kind, target) for kind in (0, 1) for target in TARGETS}
    points: list[Point] = []
    before = np.inf
    for setting in way.settings:
        point = measure_setting(place, way, ask, setting, targets, limit)
        points.append(point)
        errors = (point.error_top, point.error_row)
        if point.is_complete:
            targets -= {(kind, target) for kind, target in targets if errors[kind] <= target}
        growth = min(max(point.ms / before, 2.0), MAX_GROWTH)
        before = point.ms
        seconds = point.ms / 1e3 * (place.truth.nodes.size if way.together else 1)
        if not targets or seconds * growth > (3 * limit if way.together else limit / 3):
            break
    return points


def other_nodes(place: Place, way: Way) -> Ids:
    """Return nodes to ask for once before, so that what a package makes at first is not timed."""
    count = place.truth.nodes.size if way.together else 1
    return np.flatnonzero(place.case.graph.out_degrees())[:count]


def measure_setting(
    place: Place, way: Way, ask: Ask, setting: Any, targets: set[tuple[int, float]], limit: float
) -> Point:
    """Ask for the nodes, until the limit of seconds, or until the errors miss all targets that are open."""
    truth, n = place.truth, place.case.graph.n_nodes
    all_nodes = truth.nodes
    groups = [all_nodes] if way.together else [all_nodes[i : i + 1] for i in range(all_nodes.size)]
    seconds: list[float] = []
    errors, recalls, is_open = (0.0, 0.0), [], True
    for first, nodes in enumerate(groups):
        passed, answer = timed(lambda nodes=nodes: ask(setting, nodes))
        seconds += [passed / nodes.size] * nodes.size
        for i, row in enumerate(way.rows(answer, nodes, n), first):
            found = nearest_of(row, all_nodes[i], K)
            recalls.append([truth.recall(i, found, target) for target in TARGETS])
            errors = tuple(map(max, errors, truth.errors(i, row)))
        is_open = any(errors[kind] <= target for kind, target in targets)
        if not is_open or sum(seconds) > limit:
            break
    return place.point(way.name, way.group, setting, seconds, is_open, *errors, *np.mean(recalls, axis=0))


# ours ---------------------------------------------------------------------------------------------


def measure_nearest(place: Place, tolerance: float, limit: float) -> list[Point]:
    """Ask ``wk.nearest`` for one node after the other, and for all of them in one call."""
    graph, kernel, truth = place.case.graph, place.case.kernel, place.truth

    def ask(nodes: Ids) -> wk.EstimatedNeighbors:
        return wk.nearest(graph, kernel, nodes, K, tolerance=tolerance)

    ask(np.flatnonzero(graph.out_degrees())[:1])
    seconds, answers = [], []
    for i in range(truth.nodes.size):
        passed, answer = timed(lambda i=i: ask(truth.nodes[i : i + 1]))
        seconds.append(passed)
        answers.append(answer)
        if sum(seconds) > limit:
            break
    points = [place.point(NEAREST, NEAREST, tolerance, seconds, True, *scores(truth, answers, tolerance))]
    passed, answer = timed(lambda: ask(truth.nodes))
    each = [passed / truth.nodes.size] * truth.nodes.size
    own = scores(truth, [answer], tolerance)
    return [*points, place.point(NEAREST_ALL, NEAREST_ALL, tolerance, each, True, *own)]


def scores(truth: Truth, answers: Sequence[wk.EstimatedNeighbors], tolerance: float) -> list[float]:
    """Return the errors, recalls and shares of certified nodes of the first queries."""
    parts = [np.concatenate([getattr(a, name) for a in answers]) for name in ("nodes", "values", "certified")]
    error, recalls, n_certified, n_wrong, n_separated, n_missed = 0.0, [], 0, 0, 0, 0
    for i, (nodes, values, certified) in enumerate(zip(*parts, strict=True)):
        is_there = ~np.isnan(values)
        found, values, certified = nodes[is_there].astype(np.int64), values[is_there], certified[is_there]
        exact, last = truth.rows[i], truth.last[i]
        large = exact[found] > truth.floor
        error = max(error, relative(values[large], exact[found][large]))
        recalls.append([truth.recall(i, found, target) for target in TARGETS])
        n_certified += int(certified.sum())
        n_wrong += int((exact[found[certified]] < (1 - ROUNDING) * last).sum())
        top = truth.ranking[i, :K]
        separated = top[exact[top] - exact[truth.ranking[i, K]] > 2 * tolerance * last]
        n_separated += separated.size
        n_missed += np.setdiff1d(separated, found[certified]).size
    shares = [n_certified / parts[0].size, n_wrong / max(n_certified, 1)]
    kept = np.nan if n_separated == 0 else 1 - n_missed / n_separated
    return [error, np.nan, *np.mean(recalls, axis=0), *shares, kept]


# tables -------------------------------------------------------------------------------------------


def first_time(points: Sequence[Point], target: float, kind: str) -> Point | None:
    """Return the fastest of the first points of each way that meet a target."""
    firsts: dict[str, Point] = {}
    for point in points:
        if point.is_complete and getattr(point, kind) <= target:
            firsts.setdefault(point.way, point)
    return min(firsts.values(), key=lambda point: point.ms, default=None)


def nearest_time(points: Sequence[Point], group: str, target: float) -> tuple[str, float]:
    """Return the time of ``wk.nearest`` with a tolerance, and infinity if it misses it."""
    point = next((p for p in points if p.group == group and p.setting == str(target)), None)
    if point is None:
        return "", np.inf
    if not point.error_top <= target:
        return f"off by {point.error_top:.2g}", np.inf
    return shown(point), point.ms


def shown(point: Point | None) -> str:
    return "–" if point is None else f"{point.ms:.3g}"


def race(points: Sequence[Point], family: str, target: float) -> str:
    """Return the table of the times to a target of all ways on all graphs."""
    points = [point for point in points if point.kernel.startswith(family)]
    groups = list(dict.fromkeys(p.group for p in points if p.group not in (NEAREST, NEAREST_ALL)))
    rows = []
    for graph, kernel in dict.fromkeys((p.graph, p.kernel) for p in points):
        mine = [p for p in points if (p.graph, p.kernel) == (graph, kernel)]
        by_group = {group: [p for p in mine if p.group == group] for group in groups}
        tops = {group: first_time(own, target, "error_top") for group, own in by_group.items()}
        whole = {group: first_time(own, target, "error_row") for group, own in by_group.items()}
        cells = [f"{shown(tops[group])} | {shown(whole[group])}" for group in groups]
        single, single_ms = nearest_time(mine, NEAREST, target)
        together, together_ms = nearest_time(mine, NEAREST_ALL, target)
        alone = [p for p in tops.values() if p is not None and not p.group.endswith(" all")]
        any_way = [p for p in tops.values() if p is not None]
        leads = [lead(alone, single_ms), lead(any_way, together_ms)]
        rows.append([graph, kernel, single, leads[0], together, leads[1], *cells])
    title = (
        f"{family}, {target:.0%}: median ms of a query. Others: to this error over the true top {K} | over "
        f"all entries above 1/N.\nnearest: tolerance {target:g}, error of the values it returns; all: all "
        f"queries in one call. best other: by the top {K}, and how many times longer it takes"
    )
    header = ["graph", "kernel", NEAREST, "best other", NEAREST_ALL, "best other, all too", *groups]
    return table(title, header, rows)


def lead(others: Sequence[Point], ms: float) -> str:
    """Return the best of the others, and its time over ours."""
    best = min(others, key=lambda point: point.ms, default=None)
    if best is None:
        return "nobody"
    return f"{best.group} {best.ms / ms:.2g}" if np.isfinite(ms) else best.group


def quality(points: Sequence[Point]) -> str:
    """Return the table of the answers of ``wk.nearest``."""
    rows = [
        [
            p.graph, p.kernel, p.way, p.setting, f"{p.ms:.3g}", f"{p.ms_p95:.3g}", f"{p.error_top:.2g}",
            f"{p.recall_10 if p.setting == str(TARGETS[0]) else p.recall_1:.4f}", f"{p.certified:.1%}",
            f"{p.certified_wrong:.2%}", f"{p.separated_certified:.1%}", str(p.n_queries),
        ]
        for p in points if p.group in (NEAREST, NEAREST_ALL)
    ]  # fmt: skip
    title = (
        f"wk.nearest, {K} nodes. recall: true value at least 1 − tolerance times the {K}th largest. wrong: "
        f"certified, but below the {K}th.\nsep.: certified, of the nodes more than 2 tolerances above the "
        f"{K + 1}st"
    )
    header = ["graph", "kernel", "", "tolerance", "p50 ms", "p95 ms", "error", f"recall@{K}", "certified",
              "wrong", "sep.", "queries"]  # fmt: skip
    return table(title, header, rows)


def chosen_settings(points: Sequence[Point]) -> str:
    """Return the table of the ways and settings that the times of the races belong to."""
    rows = []
    for graph, kernel in dict.fromkeys((p.graph, p.kernel) for p in points):
        mine = [p for p in points if (p.graph, p.kernel) == (graph, kernel) and p.way != NEAREST]
        for group in dict.fromkeys(p.group for p in mine if p.group != NEAREST_ALL):
            own = [p for p in mine if p.group == group]
            row = [graph, kernel, group]
            for target in TARGETS:
                for kind in ("error_top", "error_row"):
                    point = first_time(own, target, kind)
                    row.append("–" if point is None else f"{point.way.split()[-1]} {point.setting}")
            row.append(str(min((p.n_queries for p in own if p.is_complete), default=0)))
            rows.append(row)
    names = [f"{target:.0%} {kind}" for target in TARGETS for kind in (f"top {K}", "row")]
    return table("Chosen settings", ["graph", "kernel", "group", *names, "queries"], rows)


# the run ------------------------------------------------------------------------------------------


def all_points(options: argparse.Namespace, ways: Sequence[Way], points: list[Point]) -> list[Point]:
    """Ask on every graph, for every kernel, by every way, but where there are points already."""
    done = {(point.graph, point.kernel) for point in points}
    kernels = picked(KERNELS, options.kernels)
    for graph_name, make in graphs(options).items():
        asked = {name: kernel for name, kernel in kernels.items() if (graph_name, name) not in done}
        if not asked:
            continue
        graph = make()
        made: dict[str, Any] = {}
        with_edges = np.flatnonzero(graph.out_degrees())
        nodes = np.random.default_rng(0).choice(with_edges, options.queries, replace=False)
        for kernel_name, kernel in asked.items():
            begin = time.perf_counter()
            case = Case(graph, kernel, made)
            place = Place(graph_name, kernel_name, case, Truth(case, nodes))
            for tolerance in TARGETS:
                points += measure_nearest(place, tolerance, options.limit)
            for way in ways:
                if case.family in way.families and graph.n_nodes <= way.most_nodes:
                    points += measure(place, way, options.limit)
                    print(f"  {way.name}: {summary(points, way)}", file=sys.stderr, flush=True)
            passed = time.perf_counter() - begin
            print(f"{graph_name}, {kernel_name} ({passed:.0f} s)", file=sys.stderr, flush=True)
            if options.out is not None:
                write_points(options.out / "local.csv", points)
        del graph, made
        gc.collect()
    return points


def write_points(path: Path, points: Sequence[Point]) -> None:
    """Write points as a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([Point._fields, *points])


def read_points(path: Path) -> list[Point]:
    """Return the points of a table."""
    kinds = ["True".__eq__ if kind is bool else kind for kind in get_type_hints(Point).values()]
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Point(*(kind(cell) for kind, cell in zip(kinds, row, strict=True)))
            for row in list(csv.reader(file))[1:]
        ]


def summary(points: Sequence[Point], way: Way) -> str:
    """Return the last times to the targets of a way, for the progress of the run."""
    last = points[-1]
    mine = [p for p in points if (p.graph, p.kernel, p.way) == (last.graph, last.kernel, way.name)]
    kinds = [(target, kind) for target in TARGETS for kind in ("error_top", "error_row")]
    return ", ".join(
        f"{target:.0%} {kind[6:]} {shown(first_time(mine, target, kind))}" for target, kind in kinds
    )


def graphs(options: argparse.Namespace) -> dict[str, Callable[[], wk.Graph]]:
    return picked(QUICK if options.quick else GRAPHS, options.graphs)


def picked(items: dict[str, Any], names: str) -> dict[str, Any]:
    """Return the items whose names are listed; all if nothing is."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    return {name: item for name, item in items.items() if not wanted or name in wanted}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two small graphs")
    parser.add_argument("--graphs", default="", help="names of graphs, with commas between them")
    parser.add_argument("--kernels", default="", help="names of kernels")
    parser.add_argument("--ways", default="", help="beginnings of the names of ways")
    parser.add_argument("--queries", type=int, help="nodes that are asked for; 30, or 10 with --quick")
    parser.add_argument("--limit", type=float, help="seconds for one setting; 30, or 2 with --quick")
    parser.add_argument("--out", type=Path, help="folder to fill; if not --quick, that of the results")
    parser.add_argument("--resume", action="store_true", help="keep what is in the folder's local.csv")
    options = parser.parse_args()
    if options.out is None and not options.quick:
        options.out = Path(__file__).parent / "results"
    options.queries = options.queries or (10 if options.quick else 30)
    options.limit = options.limit or (2.0 if options.quick else 30.0)
    for variable in ("WALKERNEL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = "1"
    numba.set_num_threads(1)
    warnings.simplefilter("ignore")
    ways, missing = installed_ways()
    wanted = tuple(name.strip() for name in options.ways.split(",") if name.strip())
    ways = [way for way in ways if not wanted or way.name.startswith(wanted)]
    print("\n".join(missing), file=sys.stderr)
    threadpool_limits(1)
    check_ways(ways, KERNELS)
    points = all_points(options, ways, read_points(options.out / "local.csv") if options.resume else [])
    lines = [machine() + versions(), *missing, f"at most {options.limit:g} s for a setting", ""]
    families = [family for family in (PPR, HEAT) if any(p.kernel.startswith(family) for p in points)]
    races = [race(points, family, target) for family in families for target in TARGETS]
    text = "\n".join([*lines, *races, quality(points), chosen_settings(points)])
    print(text)
    if options.out is not None:
        write_points(options.out / "local.csv", points)
        (options.out / "local.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
