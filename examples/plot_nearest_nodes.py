"""
The nearest nodes, with error bars
==================================

Which items are most like this one, which people closest to these? Search and recommendation on a graph ask
for the nodes of the largest kernel values, and for nothing else. ``nearest`` finds them without computing
the other values, and says how sure it is of each.
"""

# %%
# A network of 50,000 nodes in which a few have hundreds of neighbours, and the kernel of personalised
# PageRank: how often a random surfer, who begins at a node again and again, is seen at another.
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk

graph, kernel, node = wk.datasets.barabasi_albert(50_000, 4).graph, wk.PageRank(0.85), 4242
truth = wk.personalized_pagerank(graph, node)
truth[node] = 0  # a node is not its own neighbour
order = np.argsort(-truth)
print(graph)

# %%
# A query may be coarse or fine. The tolerance is relative to the smallest value that is returned: no value
# is off by more, and no node that is left out is better by more. (A first query, which may compile, is not
# timed.)
answers = {}
wk.nearest(graph, kernel, 0, 12)
for tolerance in 0.1, 0.01:
    begin = perf_counter()
    answers[tolerance] = best = wk.nearest(graph, kernel, node, 12, tolerance=tolerance)
    milliseconds = 1000 * (perf_counter() - begin)
    n_true = np.isin(best.nodes, order[:12]).sum()
    n_within = (abs(best.values - truth[best.nodes]) < 2 * best.stderr).sum()
    print(f"tolerance {tolerance}: {milliseconds:.1f} ms; of 12 nodes {best.certified.sum()} are certified,")
    print(f"   {n_true} are among the true 12, {n_within} have values within two standard errors")

# %%
# Filled dots are certified: these nodes are among the twelve nearest, at a level of 95 % for all of them. On
# the right, the same values relative to the truth, with bars of two standard errors.
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
best, rows = answers[0.1], np.arange(12)
fill = np.where(best.certified[0], "tab:blue", "white")
axes[0].scatter(best.values[0], rows, s=60, c=fill, edgecolors="tab:blue")
axes[0].set_yticks(rows, [f"node {name}" for name in best.nodes[0]])
axes[0].invert_yaxis()
axes[0].set(xlabel="PageRank from node 4242", title="Nearest nodes, tolerance 0.1")
for shift, (tolerance, best) in zip((-0.12, 0.12), answers.items(), strict=True):
    at = [np.flatnonzero(answers[0.1].nodes[0] == name)[0] + shift for name in best.nodes[0]]
    relative, bars = best.values[0] / truth[best.nodes[0]], 2 * best.stderr[0] / truth[best.nodes[0]]
    axes[1].errorbar(
        100 * (relative - 1), at, xerr=100 * bars, fmt="o", capsize=3, label=f"tolerance {tolerance}"
    )
axes[1].axvline(0, color="k", linewidth=0.8)
axes[1].set(xlabel="difference from the truth in percent", title="Error bars")
axes[1].legend(frameon=False)
for one in axes:
    one.grid(axis="x", alpha=0.25)
plt.show()
