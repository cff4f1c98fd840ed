"""The picture of the first page: a Gaussian process on the roads of Minnesota, from 100 noisy observations.

    python benchmarks/road_map.py [--out benchmarks/results/road_map.png]

The truth is noise that the exact diffusion kernel has smoothed, so that it varies slowly along roads, not
across the land between them. It is observed at 100 junctions, with noise. From these, ``NodeGPRegressor``
learns the width of the kernel, its amplitude and the noise, and gives mean and standard deviation everywhere.
The kernel is that of the combinatorial Laplacian, to which constants are smooth. It is not normalised,
because the truth is not: it varies more at dead ends, where there is less to average over.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.collections import LineCollection

import walkernel as wk

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("benchmarks/results/road_map.png"))
path = parser.parse_args().out

roads = wk.load_dataset("minnesota")
name, whole, places = roads.name, roads.graph, roads.coordinates
degree_east = np.cos(np.radians(places[:, 1].mean()))  # in degrees north
connected = whole.largest_component()  # its nodes are named by their old ids
graph, places = wk.Graph.from_scipy(connected.to_scipy()), places[list(connected.labels)]
n = graph.n_nodes

rng = np.random.default_rng(2)
truth = wk.polynomial_operator(graph, wk.Diffusion(16.0, matrix="combinatorial")) @ rng.standard_normal(n)
truth = (truth - truth.mean()) / truth.std()
observed = rng.choice(n, 100, replace=False)
y = truth[observed] + 0.2 * rng.standard_normal(100)

kernel = wk.Diffusion(matrix="combinatorial")  # its width is learned
model = wk.NodeGPRegressor(graph, kernel, normalize=False).fit(observed, y)
mean, std = model.predict(range(n), return_std=True)

rest = np.setdiff1d(range(n), observed)
error = (mean - truth)[rest]
print(f"{name}: {graph}\n{model.kernel_}, amplitude {model.amplitude_:.2f}, noise {model.noise_:.3f}\n")
print(f"at the {rest.size} junctions that were not observed")
print(f"error of the mean        {np.sqrt(np.mean(error**2)):.3f}")
print(f"error of a constant      {np.sqrt(np.mean((truth[rest] - y.mean()) ** 2)):.3f}")
print(f"in the intervals of 95 % {np.mean(abs(error) < 1.96 * std[rest]):.3f}\n")

matplotlib.use("agg")
figure, panels = pyplot.subplots(1, 3, figsize=(12, 4.9), layout="constrained")
A = graph.to_scipy().tocoo()
lines = places[np.column_stack([A.row, A.col])[A.row < A.col]]
low, high = np.percentile(truth, [1, 99])
signal = {"cmap": "viridis", "vmin": low, "vmax": high}
spread = {"cmap": "plasma", "vmin": 0, "vmax": np.percentile(std, 99)}
titles = "Truth", "Posterior mean, and the 100 places observed", "Posterior standard deviation"
for axes, title, values, scale in zip(
    panels, titles, (truth, mean, std), (signal, signal, spread), strict=True
):
    axes.add_collection(LineCollection(lines, colors="0.7", linewidths=0.5, zorder=1))
    dots = axes.scatter(*places.T, c=values, s=9, linewidths=0, **scale)
    axes.set_title(title, fontsize=13)
    axes.set_aspect(1 / degree_east)
    axes.set_axis_off()
bar = {"location": "bottom", "extend": "both", "pad": 0.01}
figure.colorbar(panels[1].collections[1], ax=panels[:2], label="signal", shrink=0.45, aspect=36, **bar)
bar["extend"] = "max"
figure.colorbar(dots, ax=panels[2], label="standard deviation", shrink=0.9, aspect=36, **bar)
panels[1].scatter(*places[observed].T, s=24, facecolors="none", edgecolors="k", linewidths=0.9)
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=100)
print(f"Saved {path}")
