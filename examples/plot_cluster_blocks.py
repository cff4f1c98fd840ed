"""Find the hidden blocks of a graph: kernel k-means on a kernel that random walks estimate.

The graph has four blocks, with more edges inside them than between them. ``KernelKMeans`` needs of a kernel
only its diagonal and its products with vectors, so that an estimate can stand in for the kernel. To see what
that costs, both start from the same random labels, for ten starts, each with walks of its own. (A single
start may end in a poor minimum; k-means++, the default, tries ten and keeps the best.) Errors are the share
of the pairs of nodes that one clustering joins and the other separates.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

import walkernel as wk
from walkernel.datasets import stochastic_block_model

blocks = stochastic_block_model([200, 150, 150, 100], p_within=0.06, p_between=0.01)
graph, kernel = blocks.graph, wk.Diffusion(4.0)
K = wk.estimate_kernel(graph, kernel, n_walks=256)
found = wk.KernelKMeans(4).fit(K).labels_
print(f"{graph}\nk-means++ and 256 walks: error {wk.clustering_error(found, blocks.labels):.3f}\n")

counts, starts = [16, 64, 256, 1024], np.random.default_rng(0).integers(4, size=(10, graph.n_nodes))
exact, to_blocks, to_exact, exact_to_blocks = wk.polynomial_operator(graph, kernel), [], [], []
for seed, start in enumerate(starts):
    truth = wk.KernelKMeans(4, init=start).fit(exact).labels_
    estimates = [wk.estimate_kernel(graph, kernel, n_walks=count, seed=seed) for count in counts]
    labels = [wk.KernelKMeans(4, init=start).fit(estimate).labels_ for estimate in estimates]
    to_blocks.append([wk.clustering_error(own, blocks.labels) for own in labels])
    to_exact.append([wk.clustering_error(own, truth) for own in labels])
    exact_to_blocks.append(wk.clustering_error(truth, blocks.labels))


def mean(values):
    """Return a mean with its standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


print("walks          error to the blocks   to the exact kernel")
for i, count in enumerate(counts):
    print(f"{count:<20d} {mean(np.array(to_blocks)[:, i])}         {mean(np.array(to_exact)[:, i])}")
print(f"{'exact kernel':20s} {mean(exact_to_blocks)}")

matplotlib.use("agg")
figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(14, 5), layout="constrained")
A, n = graph.to_scipy().tocoo(), graph.n_nodes
shuffled, sorted_by_cluster = np.random.default_rng(1).permutation(n), np.argsort(np.argsort(found))
colors = np.array(["tab:red", "tab:blue", "tab:green", "tab:purple", "0.6"])
colors = colors[np.where(found[A.row] == found[A.col], found[A.row], 4)]
left.scatter(shuffled[A.col], shuffled[A.row], s=1.2, c="0.3", linewidths=0)
left.set_title("The adjacency matrix, nodes in random order")
middle.scatter(sorted_by_cluster[A.col], sorted_by_cluster[A.row], s=1.2, c=colors, linewidths=0)
middle.set_title("The same, nodes ordered by cluster (256 walks)")
for axes in (left, middle):
    axes.set(aspect="equal", xlim=(0, n), ylim=(n, 0), xticks=[], yticks=[])
for errors, style, name in (
    (to_blocks, "o", "to the blocks"),
    (to_exact, "s", "to the exact kernel's clusters"),
):
    (line,) = right.plot(counts, np.median(errors, axis=0), f"{style}-", label=name)
    right.plot(counts, np.transpose(errors), style, color=line.get_color(), alpha=0.3, markersize=5)
right.axhline(np.median(exact_to_blocks), color="k", linestyle="--", label="exact kernel to the blocks")
right.set(xscale="log", yscale="log", xlabel="walks from each node", ylabel="share of pairs that differ")
right.set_xticks(counts, [str(count) for count in counts])
right.set_yticks([0.01, 0.03, 0.1, 0.3], ["0.01", "0.03", "0.1", "0.3"])
right.minorticks_off()
right.set_title("Error: ten starts and their median")
right.legend(frameon=False, loc="lower left")
right.grid(alpha=0.25)
path = Path(*sys.argv[1:2]) / "cluster_blocks.png"
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=130)
print(f"\nSaved {path}")
