"""
Clusters of a block model
=========================

Communities are groups of nodes with more edges inside them than between them. ``KernelKMeans`` finds them,
and their number, from the graph alone. It needs only products with a kernel, so that an estimate from
random walks can stand in for it: what does that cost?
"""

# %%
# Four hidden blocks of 100 to 200 nodes.
import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk
from walkernel.datasets import stochastic_block_model

blocks = stochastic_block_model([200, 150, 150, 100], p_within=0.08, p_between=0.01)
graph, n = blocks.graph, blocks.graph.n_nodes
found = wk.KernelKMeans(None).fit(graph)  # None: the number of clusters is chosen, too
share = wk.clustering_error(found.labels_, blocks.labels)
print(f"{graph}: {found.n_clusters_} clusters, {share:.2%} of all pairs of nodes wrongly joined or separated")

# %%
# The same clustering of estimated kernels, for more and more walks and five seeds each.
counts, seeds = [8, 32, 128, 512], range(5)
error = np.empty((len(counts), len(seeds)))
for i, count in enumerate(counts):
    for seed in seeds:
        K = wk.estimate_kernel(graph, wk.Diffusion(4.0), n_walks=count, seed=seed)
        labels = wk.KernelKMeans(4, random_state=seed).fit(K).labels_
        error[i, seed] = wk.clustering_error(labels, blocks.labels)
    print(f"{count:4d} walks: error {error[i].mean():.3f}")

# %%
# The adjacency matrix, with nodes in random order and ordered by the clusters that were found.
figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
A = graph.to_scipy().tocoo()
for order, title, one in (
    (np.random.default_rng(0).permutation(n), "Edges, nodes in random order", axes[0]),
    (np.argsort(np.argsort(found.labels_, kind="stable")), "Edges, nodes ordered by cluster", axes[1]),
):
    one.scatter(order[A.col], order[A.row], s=1, c="0.2", linewidths=0)
    one.set(aspect="equal", xlim=(0, n), ylim=(n, 0), xticks=[], yticks=[], title=title)
axes[2].plot(counts, error, "o", color="tab:blue", alpha=0.4)
axes[2].plot(counts, error.mean(axis=1), color="tab:blue", label="estimated kernels and their mean")
axes[2].axhline(share, color="k", linestyle="--", label="eigenvectors (the default)")
axes[2].set_xscale("log")
axes[2].set_xticks(counts, [str(count) for count in counts])
axes[2].minorticks_off()
axes[2].set(
    xlabel="walks from each node", ylabel="share of pairs", ylim=(0, None), title="Pairs that are wrong"
)
axes[2].legend(frameon=False)
axes[2].grid(alpha=0.25)
plt.show()
