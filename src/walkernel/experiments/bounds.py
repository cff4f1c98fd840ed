"""Sec. 2.4 and appendices A.1, A.4: what the theorems bound, beside what is found.

Theorem 2.3: the Rademacher complexity of kernels with |αᵢ| ≤ αᵢ^(M) is at most √(Σ αᵢ^(M) ρⁱ / m). Over
random signs σ its value is the mean of √(Σ αᵢ^(M) |σᵀWⁱσ|) / m. Appendix A.1: all of m walks are shorter than
b, which grows with the logarithm of m, with probability 1 − δ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from walkernel.engines import sample_walks
from walkernel.experiments._graphs import load, present
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict, named, summary
from walkernel.experiments.learned_f import KERNEL, C
from walkernel.theory import batch_length, rademacher_bound
from walkernel.walks import IndependentWalks

GRAPHS = ("ER 20", "binary tree", "karate", "dolphins", "football")
LENGTH = 40
P_HALT, DELTA = 0.1, 0.05
NUMBERS_OF_WALKS = (1, 4, 16, 64, 256)


def cells(size: str) -> list[Cell]:
    """Return a cell for each graph and for each number of walks."""
    complexities = [Cell("bounds", f"complexity-{name}", {"graph": name}) for name in present(GRAPHS)]
    return complexities + [
        Cell("bounds", f"length-{n_walks}", {"n_walks": n_walks}) for n_walks in NUMBERS_OF_WALKS
    ]


def measure(cell: Cell, run: Run) -> list[Row]:
    """Return one value that a theorem bounds, and the bound."""
    return [
        _complexity(cell.given["graph"], run)
        if "graph" in cell.given
        else _length(cell.given["n_walks"], run)
    ]


def _complexity(name: str, run: Run) -> Row:
    """Return the empirical Rademacher complexity of the kernels bounded by the 2-regularized Laplacian."""
    graph = load(name).graph
    W, n, alpha = graph.to_scipy("normalized"), graph.n_nodes, KERNEL.coefficients(LENGTH)
    signs = run.seeds(24, n).choice([-1.0, 1.0], (n, 2000 if run.full else 500))
    total, power = np.zeros(signs.shape[1]), signs
    for term in alpha:
        total += term * np.abs((signs * power).sum(axis=0))
        power = W @ power
    return {
        "quantity": "Rademacher complexity", "graph": name, "n": n, "bound": rademacher_bound(alpha, 1.0, n),
        **summary(np.sqrt(total) / n), "error_kind": "value", "ensembles": "", "c": C,
        "parameters": named(kernel="2-reg", sigma=0.8),
    }  # fmt: skip


def _length(n_walks: int, run: Run) -> Row:
    """Return how often all walks of a node are shorter than the batch length."""
    b = batch_length(n_walks, P_HALT, DELTA)
    graph = load("karate").graph
    held = []
    for seed in run.seeds(11, n_walks).integers(2**31, size=1000 if run.full else 200).tolist():
        deposits = sample_walks(graph, n_walks, sampler=IndependentWalks(P_HALT), seed=seed).deposits
        longest = np.maximum.reduceat(deposits.lengths, deposits.indptr[:-1])
        held.append(float((longest < b).mean()))
    return {
        "quantity": "share of nodes with all walks shorter than b", "graph": "karate", "n": graph.n_nodes,
        "n_walks": n_walks, "b": b, "bound": 1 - DELTA, **summary(held), "error_kind": "value",
        "parameters": named(p_halt=P_HALT, delta=DELTA),
    }  # fmt: skip


def _parts(rows: dict[str, list[Row]]) -> tuple[list[Row], list[Row]]:
    found = rows["bounds"]
    return [r for r in found if not r["b"]], [r for r in found if r["b"]]


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw complexities below their bounds, and batch lengths against the number of walks."""
    left, right = figure.subplots(1, 2)
    complexities, lengths = _parts(rows)
    x = np.arange(len(complexities))
    left.bar(x, [r["ours"] for r in complexities], 0.5, color="#4292c6", label="found, over random signs")
    bounds, style = [r["bound"] for r in complexities], {"markersize": 30, "markeredgewidth": 3}
    left.plot(x, bounds, "_", color="tab:orange", **style)
    left.plot([], [], "-", color="tab:orange", linewidth=3, label="bound of Theorem 2.3")
    left.set_xticks(x, [r["graph"].replace(" ", "\n") for r in complexities])
    left.set(ylabel="Rademacher complexity", title="Kernels with |αᵢ| at most those of (I + .64 L)⁻²")
    left.legend()
    right.semilogx(
        [r["n_walks"] for r in lengths], [r["b"] for r in lengths], "o-", color="tab:orange", base=2
    )
    for row in lengths:
        text = f"{row['ours']:.3f}"
        right.annotate(
            text, (row["n_walks"], row["b"]), textcoords="offset points", xytext=(0, 8), ha="center"
        )
    right.set(
        xlabel="walks", ylabel="batch length b", ylim=(0, 1.2 * lengths[-1]["b"]),
        title=f"Share of nodes whose walks are all shorter than b (goal {1 - DELTA:g})",
    )  # fmt: skip


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Compare with both bounds."""
    complexities, lengths = _parts(rows)
    shares = [row["ours"] / row["bound"] for row in complexities]
    below = all(row["ours"] + 3 * row["stderr"] < row["bound"] for row in complexities)
    enough = all(row["ours"] + 4 * row["stderr"] > row["bound"] for row in lengths)
    first, last, least = lengths[0], lengths[-1], min(lengths, key=lambda row: row["ours"])
    return Verdict(
        below and enough,
        f"The complexity is {min(shares):.2f} to {max(shares):.2f} of Theorem 2.3's bound on every graph: "
        f"the bound {'holds' if below else 'fails'} and is not tight, as the paper says. With the length b "
        f"of appendix A.1, at least {least['ours']:.3f} ± {least['stderr']:.3f} of the nodes have no longer "
        f"walk (promised: {1 - DELTA:g}), and b grows slowly: {first['b']} for one walk, {last['b']} for "
        f"{last['n_walks']}.",
    )


STUDY = Study(
    "bounds", "2.4, A.1, A.4", "Bounds: complexity of learned kernels, length of walks",
    {"bounds": ("quantity", "graph", "n", "n_walks", "b", "bound", *COMMON)}, cells, measure, draw, judge,
    figure_size=(11, 3.8),
)  # fmt: skip
