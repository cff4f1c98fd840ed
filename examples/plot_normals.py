"""
Normals of a surface, filled in
===============================

A scanner gives normals at some corners of a mesh, and the rest must be filled in: one value for each of
three coordinates, smooth along the surface, not through it. ``NodeRidge`` learns all three at once.
"""

# %%
# Of the normals of a cylinder with flat lids, a random part is known. The plain alternative is the mean of
# the known neighbours; where there are none, it has no answer, and takes the known corner that is nearest in
# space.
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import KDTree

import walkernel as wk
from walkernel.plots import plot_mesh

can = wk.datasets.cylinder_mesh(60, 30)
graph, places, normals = can.graph, can.coordinates, can.normals
A, rng = graph.to_scipy("adjacency"), np.random.default_rng(0)


def neighbours(known):
    found = np.zeros_like(normals)
    found[known] = normals[known]
    total, nearest = A @ found, known[KDTree(places[known]).query(places)[1]]
    return np.where(np.linalg.norm(total, axis=1, keepdims=True) > 0, total, normals[nearest])


def kernel(known):
    return wk.NodeRidge(graph).fit(known, normals[known]).predict(range(graph.n_nodes))


def angles(prediction):
    """Return the angles between predicted and true normals, in degrees."""
    cosine = (prediction * normals).sum(axis=1) / np.linalg.norm(prediction, axis=1)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


# %%
# Mean angles at the corners whose normals are hidden. The kernel, its width and the penalty are chosen from
# the known normals alone.
shares = [0.05, 0.1, 0.2, 0.4, 0.8]
methods = {"NodeRidge": kernel, "known neighbours": neighbours}
error = np.empty((len(methods), len(shares)))
for j, share in enumerate(shares):
    known = rng.choice(graph.n_nodes, int(share * graph.n_nodes), replace=False)
    hidden = np.setdiff1d(range(graph.n_nodes), known)
    error[:, j] = [angles(method(known))[hidden].mean() for method in methods.values()]
print("known             " + "".join(f"{share:7.0%}" for share in shares))
for name, own in zip(methods, error, strict=True):
    print(f"{name:18s}" + "".join(f"{angle:6.1f}°" for angle in own))

# %%
# What is left is at the edges of the lids, where the normals turn within one edge.
few = np.random.default_rng(1).choice(graph.n_nodes, graph.n_nodes // 10, replace=False)
figure = plt.figure(figsize=(10.5, 4.5), layout="constrained")
left = figure.add_subplot(1, 2, 1, projection="3d", azim=-60, elev=35)
plot_mesh(can, angles(kernel(few)), label="degrees", title="Error with 10 % known", ax=left)
right = figure.add_subplot(1, 2, 2)
for (name, own), style in zip(zip(methods, error, strict=True), ("o-", "s-"), strict=True):
    right.plot(shares, own, style, label=name)
right.set_xscale("log")
right.set_xticks(shares, [f"{share:.0%}" for share in shares])
right.minorticks_off()
right.set(
    xlabel="known normals", ylabel="mean angle in degrees", ylim=(0, None), title="Error at hidden corners"
)
right.legend(frameon=False)
right.grid(alpha=0.25)
plt.show()
