"""
A graph that changes
====================

Streets open and close, people meet and part. A walk that has not touched an edge that changed is still a
walk of the new graph: only the others are walked again. The result has the bits of a sample that was made
anew.
"""

# %%
# A town of 2500 crossings on two banks of a river, with one bridge near its left end.
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk
from walkernel.plots import plot_nodes

size = 50
town = wk.datasets.grid(size, size)
edges = np.column_stack([town.graph.row_indices(), town.graph.indices])
edges = edges[edges[:, 0] < edges[:, 1]]
row, column = np.divmod(edges, size)
crosses = (row[:, 0] == size // 2 - 1) & (row[:, 1] == size // 2)
before = wk.Graph.from_edges(edges[~crosses | (column[:, 0] == 5)], n_nodes=size**2)
after = wk.Graph.from_edges(edges[~crosses | np.isin(column[:, 0], [5, 30])], n_nodes=size**2)

# %%
# A second bridge is built. The first update also compiles what has not been compiled; the next ones, when
# the bridge is closed and opened again, show what an update takes.
kernel = wk.Diffusion(10.0)
sampler = wk.choose_sampler(before, kernel)
options = {"n_walks": 64, "sampler": sampler}
walks = wk.sample_walks(before, **options)
old = walks.features(kernel)
for graph in after, before, after:
    begin = perf_counter()
    walks.update(graph)
    update = perf_counter() - begin
new = walks.features(kernel)
begin = perf_counter()
fresh = wk.sample_walks(after, **options)
print(
    f"{walks.n_rewalked} of {64 * size**2} walks were walked again ({walks.n_rewalked / (64 * size**2):.2%})"
)
print(f"update {1000 * update:.0f} ms, all walks anew {1000 * (perf_counter() - begin):.0f} ms")
same = fresh.features(kernel)
print(
    "the same bits as all walks anew:", (same.data == new.data).all() and (same.indices == new.indices).all()
)

# %%
# What the bridge has changed: the kernel between the node at its southern end and all others, before and
# after.
south = (size // 2 - 1) * size + 30
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
for features, title, one in (old, "one bridge", axes[0]), (new, "two bridges", axes[1]):
    values = (features @ features[[south]].T).toarray()[:, 0]
    plot_nodes(town, values, observed=[south], label="kernel", title=f"Row of the kernel, {title}", ax=one)
    one.collections[1].set_clim(0, 0.006)  # the same colours in both
    one.axhline(size / 2 - 0.5, color="tab:blue", linewidth=3, alpha=0.4)
plt.show()
