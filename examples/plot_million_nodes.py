"""
A million nodes
===============

Is my graph too large? A dense kernel matrix of a million nodes would take eight terabytes. Nothing here is
larger than the graph itself: a signal is smoothed over all nodes in some tens of sparse products, and
questions about a few nodes do not look at the rest.
"""

# %%
# A million random points in the plane, each joined with its three nearest ones.
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import KDTree

import walkernel as wk

small, wide = wk.datasets.grid(30, 30).graph, wk.Diffusion(60.0, matrix="combinatorial")
wk.nearest(small, wk.PageRank(0.85), [0], 10)  # the first calls compile
wk.estimate_kernel(small, wide, 64, rows=[0]).estimate_product(np.ones(900))
times = [perf_counter()]


def lap(name):
    """Print the seconds since the last call."""
    times.append(perf_counter())
    print(f"{name:52s}{times[-1] - times[-2]:6.2f} s")


n, rng = 10**6, np.random.default_rng(0)
places = rng.uniform(size=(n, 2))
places = places[np.lexsort((places[:, 0], (places[:, 1] * 1000).astype(int)))]  # near nodes have near numbers
neighbours = KDTree(places).query(places, 4)[1]
lap("points and their neighbours")
edges = np.column_stack([np.repeat(np.arange(n), 3), neighbours[:, 1:].ravel()])
graph = wk.Graph.from_edges(np.unique(np.sort(edges, axis=1), axis=0), n_nodes=n)
print(graph)
lap("graph")

# %%
# Every node has a measurement that is mostly noise. The rows of this kernel sum to one, so that
# it takes weighted means of the values around each node.
signal = np.sin(12 * places[:, 0]) * np.cos(9 * places[:, 1])
noisy = signal + 3 * rng.standard_normal(n)
K = wk.polynomial_operator(graph, wide, tol=1e-4)
smooth = K @ noisy  # the rows of K sum to one
lap("K @ v for all nodes")
for name, values in ("measurements", noisy), ("smoothed", smooth):
    print(f"error of the {name:13s}{np.sqrt(np.mean((values - signal) ** 2)):.3f}")

# %%
# Three nodes: the nodes nearest to them, and the smoothed value there from walks alone, with an error bar.
few = [123_456, 500_000, 876_543]
best = wk.nearest(graph, wk.PageRank(0.85), few, 10)
lap("ten nearest nodes of three nodes")
print(best.nodes[:, :4], "certified:", best.certified.sum(), "of 30")
rows = wk.estimate_kernel(graph, wide, 4096, rows=few)
lap("three rows of the kernel, from 4096 walks each")
estimate = rows.estimate_product(noisy)
for node, value, stderr in zip(few, estimate.value, estimate.stderr, strict=True):
    print(f"node {node}: {value:.3f} ± {stderr:.3f}, exact {smooth[node]:.3f}")

# %%
# A million dots, coloured by value.
figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for values, title, one in (noisy, "Measured", axes[0]), (smooth, "Smoothed", axes[1]):
    dots = one.scatter(*places.T, c=values, s=0.4, vmin=-1, vmax=1, linewidths=0, rasterized=True)
    one.set(aspect="equal", xlim=(0, 1), ylim=(0, 1), title=f"{title}, {n:,} nodes")
    one.set_axis_off()
figure.colorbar(dots, ax=axes, label="value", extend="both", shrink=0.8)
plt.show()
