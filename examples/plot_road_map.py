"""
A map of roads from 100 measurements
====================================

Traffic, noise or prices are measured at a few junctions of a road network and wanted at all others. A
Gaussian process on the graph predicts along the roads rather than across the land between them, and says
how far each prediction can be trusted. Here a river with two bridges shows what difference that makes.
"""

# %%
# The map is generated: a Gabriel graph of random points, of which some roads are left out. It has about as
# many roads at a junction as real maps have, and only the two bridges cross the river.
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import Delaunay, KDTree
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import walkernel as wk
from walkernel.plots import plot_nodes

rng = np.random.default_rng(0)
places = rng.uniform(size=(2500, 2))
corners = Delaunay(places).simplices
edges = np.unique(
    np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])), axis=0
)
lengths = np.linalg.norm(places[edges[:, 0]] - places[edges[:, 1]], axis=1)
middles = places[edges].mean(axis=1)
edges = edges[(KDTree(places).query(middles)[0] > lengths / 2 - 1e-9) & (rng.uniform(size=len(edges)) < 0.75)]

x, y = np.moveaxis(places[edges], 2, 0)
river = 0.5 + 0.1 * np.sin(6 * x)  # its latitude
crosses = (y[:, 0] > river[:, 0]) != (y[:, 1] > river[:, 1])
is_bridge = np.isin(np.arange(len(edges)), np.flatnonzero(crosses)[[5, -5]])
roads = wk.Graph.from_edges(edges[~crosses | is_bridge], n_nodes=len(places)).largest_component()
places = places[list(roads.labels)]
graph = wk.Graph.from_scipy(roads.to_scipy())
n = graph.n_nodes
print(graph)

# %%
# The true values are noise that a diffusion kernel has smoothed along the roads. They are measured at 100
# junctions, with errors of standard deviation 0.2.
smooth = wk.polynomial_operator(graph, wk.Diffusion(16.0, matrix="combinatorial"))
truth = smooth @ rng.standard_normal(n)
truth = (truth - truth.mean()) / truth.std()
observed = rng.choice(n, 100, replace=False)
measured = truth[observed] + 0.2 * rng.standard_normal(100)

# %%
# Width, amplitude and noise are learned from the measurements. For comparison, a Gaussian process in the
# plane is given the coordinates of the junctions and no roads.
model = wk.NodeGPRegressor(graph, wk.Diffusion(matrix="combinatorial"), normalize=False)
mean, std = model.fit(observed, measured).predict(range(n), return_std=True)
plane = GaussianProcessRegressor(RBF(0.1) + WhiteKernel(0.1), normalize_y=True, n_restarts_optimizer=2)
flat = plane.fit(places[observed], measured).predict(places)

rest = np.setdiff1d(range(n), observed)
for name, prediction in ("on the roads", mean), ("in the plane", flat), ("a constant", measured.mean()):
    print(f"error, {name:14s}{np.sqrt(np.mean((prediction - truth)[rest] ** 2)):.3f}")
print(f"true values in intervals of 95 %: {np.mean(abs(mean - truth)[rest] < 1.96 * std[rest]):.3f}")

# %%
# The prediction changes at the river, as the truth does, and the standard deviation grows with the distance
# by road to the next measurement.
figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
plot_nodes(graph, truth, positions=places, label="value", title="Truth", ax=axes[0])
title = "Posterior mean, measured junctions ringed"
plot_nodes(graph, mean, positions=places, observed=observed, label="value", title=title, ax=axes[1])
title = "Posterior standard deviation"
plot_nodes(
    graph, std, positions=places, observed=observed, label="standard deviation", title=title, ax=axes[2]
)
longitude = np.linspace(0, 1, 200)
for one in axes:
    one.plot(longitude, 0.5 + 0.1 * np.sin(6 * longitude), color="tab:blue", linewidth=5, alpha=0.3, zorder=0)
for one in axes[:2]:
    one.collections[1].set_clim(-2, 2)  # the same colours for truth and mean
plt.show()
