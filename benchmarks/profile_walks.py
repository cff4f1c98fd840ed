"""Where the time of a step goes: each loop of the walker by itself, in nanoseconds for each step.

    python benchmarks/profile_walks.py [--out FILE]

The loops are timed in blocks of walkers as a task has them, all start nodes and walks different.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import core
import numba
import numpy as np

import walkernel as wk
from walkernel.engines import checked_spec
from walkernel.walks import _coalesce, _loops, _state
from walkernel.walks._samplers import Coupling

N_WALKS, BLOCK = 16, 128


@numba.njit(nogil=True)
def advance(table, key, walkers, active, longest, mode):
    """Draw words (mode 1), and step (mode 2), for all steps of a block that is lined up."""
    for step in range(1, longest + 1):
        if step % 2 == 0:
            _loops.fill_words(step // 2, active[step], 0, walkers, key)
        if mode > 1:
            words = walkers.words if step == 1 else walkers.odd if step % 2 else walkers.even
            if table.alias.size:
                _loops.step_alias(active[step], walkers, words, table.packed, table.alias)
            else:
                _loops.step_uniform(active[step], walkers, words, table.packed, table.indices)


def profile(graph: wk.Graph, n_nodes: int) -> dict[str, float]:
    """Return nanoseconds for each step of the parts of the walker, and of coalescing."""
    starts = np.random.default_rng(0).permutation(graph.n_nodes)[:n_nodes]
    spec = checked_spec(graph, N_WALKS, None, 0, 0, None, "normalized", False)
    table, law, factors = spec.table, spec.law, 1.0 / spec.law.survival
    walkers, order = _state.make_walkers(BLOCK * N_WALKS, law.thresholds.size + 2)
    alone = Coupling(0, 0, 0)
    no_heads, front = spec.at(starts[:BLOCK]).heads()
    room = law.expected_deposits(4 * BLOCK * N_WALKS)
    nodes, values = np.empty(room, dtype=np.int32), np.empty(room)
    indices, data = np.empty(room, dtype=np.int32), np.empty(room)
    counts, norms = np.empty(BLOCK, dtype=np.int64), np.empty((BLOCK, 2))
    spent: dict[str, float] = dict.fromkeys(
        ("lengths", "line up", "words", "words+steps", "block", "coalesce", "norms"), 0.0
    )
    steps = 0

    def timed(name, function, *arguments):
        start = time.perf_counter()
        result = function(*arguments)
        spent[name] += time.perf_counter() - start
        return result

    def prepare(block, key):
        total = timed(
            "lengths",
            _loops.draw_lengths,
            block,
            N_WALKS,
            key,
            alone,
            law.thresholds,
            law.guide,
            table.packed,
            front,
            0,
            walkers,
        )
        lined = (block, N_WALKS, key, table.first, front, 0, walkers, order, nodes, values, factors[0])
        return total, lined

    for begin in range(0, n_nodes, BLOCK):
        block = starts[begin : begin + BLOCK]
        if begin == BLOCK:
            spent, steps = dict.fromkeys(spent, 0.0), 0
        for stream, mode in ((0, "words"), (1, "words+steps"), (2, "block")):
            key = _state.Key(np.uint64(stream), np.uint64(1), np.uint64(2), np.zeros(BLOCK, dtype=np.int64))
            total, lined = prepare(block, key)
            if mode == "block":
                timed(
                    mode,
                    _loops.walk_block,
                    block,
                    N_WALKS,
                    key,
                    alone,
                    table,
                    factors,
                    front,
                    0,
                    walkers,
                    order,
                    total,
                    nodes,
                    values,
                )
            else:
                longest = timed("line up", _loops.line_up, *lined)
                timed(mode, advance, table, key, walkers, order.active, longest, 1 + (mode == "words+steps"))
        lengths = walkers.lengths.copy()
        steps += total - lengths.size
        for name, with_norms in (("coalesce", False), ("norms", True)):
            heads = (no_heads.indptr, no_heads.nodes, no_heads.loads)
            rest = (*heads, int(with_norms), counts, norms, indices, data)
            lookup = _coalesce.make_lookup(int(lengths.reshape(-1, N_WALKS).sum(axis=1).max()) + N_WALKS)
            timed(name, _coalesce.coalesce, N_WALKS, lengths, nodes, values, *rest, lookup)
    spent["lengths"] /= 3
    spent["line up"] /= 2
    each = {name: 1e9 * seconds / steps for name, seconds in spent.items()}
    return {
        "lengths": each["lengths"],
        "line up": each["line up"],
        "random words": each["words"],
        "steps": each["words+steps"] - each["words"],
        "deposits": each["block"] - each["line up"] - each["words+steps"],
        "coalesce": each["coalesce"],
        "norms": each["norms"] - each["coalesce"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    rows = []
    for n_nodes in (10**4, 10**5, 10**6):
        for weighted in (False, True):
            found = profile(core.random_graph(n_nodes, weighted=weighted), 9_984)
            rows.append(
                [
                    f"{n_nodes:.0e}",
                    "weighted" if weighted else "unweighted",
                    *(f"{x:.1f}" for x in found.values()),
                ]
            )
    text = (
        core.machine()
        + "\n"
        + core.table("Nanoseconds for each step, one thread", ["nodes", "graph", *found], rows)
    )
    print(text)
    if out is not None:
        out.write_text(text)


if __name__ == "__main__":
    main()
