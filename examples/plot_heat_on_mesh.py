"""Heat on the surface of a tooth: one spot is hot at first, another is heated all the time.

The equation is x' = −(D − A) x + y: along each edge of the mesh heat flows in proportion to the difference of
temperature, and y is the heater. The whole surface is a matter for sparse products, the default.
Random walks answer for single nodes, at a cost that does not depend on the size of the mesh, and they know
their own error. All times share the walks of a node, so that its errors go together. Where the mesh cannot be
had, a ring takes its place.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

import walkernel as wk
from walkernel.datasets import torus_mesh

try:
    body = wk.load_dataset("busted")  # a molar
except (OSError, ImportError):
    body = torus_mesh(60, 30)
graph, places, faces = body.graph, body.coordinates, body.faces


def spot(node, radius=0.09):
    """Return a round spot: 1 at a node, falling to 0 at some share of the size of the body."""
    distance = np.linalg.norm(places - places[node], axis=1) / np.linalg.norm(np.ptp(places, axis=0))
    return np.exp(-((distance / radius) ** 2))


hot, heated = np.argmax(places @ [[-0.6, 1.0], [-1.0, -0.35], [1.0, 0.4]], axis=0)
halfway = np.argmin(np.linalg.norm(places - (places[hot] + places[heated]) / 2, axis=1))
watched = {"hot at first": hot, "halfway": halfway, "heated": heated}
heat = {"source": 0.15 * spot(heated), "initial": spot(hot), "matrix": "combinatorial"}

pictures = wk.solve_ode(graph, t=[0.1, 1, 4, 16], **heat)
nodes, t = list(watched.values()), np.arange(1, 65) / 4
curves = wk.solve_ode(graph, t=t, nodes=nodes, **heat)
few = [1, 3, *range(7, 64, 8)]  # the times 0.5, 1, 2, 4, 6, ... 16
points = wk.solve_ode(graph, t=t[few], nodes=nodes, n_walks=1024, **heat)

error = points.x - curves.x[few]
print(f"{body.name}: {graph}\n\nnode          time   walks    s.e.    error")
for i, name in enumerate(watched):
    for row in (1, 3, 9):
        values = f"{points.x[row, i]:7.3f} {points.stderr[row, i]:7.3f} {error[row, i]:+8.3f}"
        print(f"{name:12s} {points.t[row]:5g} {values}")
within = int((abs(error) < 2 * points.stderr).sum())
print(f"\n{within} of {error.size} estimates are within two standard errors of the truth")

matplotlib.use("agg")
figure = pyplot.figure(figsize=(12, 7.5), layout="constrained")
upper, lower = figure.subfigures(2, 1, height_ratios=(1, 1.1))
light = 0.75 + 0.25 * np.clip(body.normals @ [0.2, -0.7, 0.68], 0, 1)
scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, 1), "YlOrRd")
panels = upper.subplots(1, 4, subplot_kw={"projection": "3d", "azim": -70, "elev": 35})
for axes, time, x in zip(panels, pictures.t, pictures.x, strict=True):
    colors = scale.to_rgba(x[faces].mean(axis=1))
    colors[:, :3] *= light[faces].mean(axis=1)[:, None]
    surface = axes.plot_trisurf(*places.T, triangles=faces, linewidth=0.2)
    surface.set(facecolor=colors, edgecolor=colors)
    axes.set_box_aspect(np.ptp(places, axis=0), zoom=1.5)
    axes.set_axis_off()
    axes.set_title(f"time {time:g}")
upper.suptitle("A spot that is hot at first, on the left, and one that is heated, on the right")
upper.colorbar(scale, ax=panels, label="temperature", shrink=0.8)

axes = lower.subplots()
for i, (name, color) in enumerate(zip(watched, ("tab:red", "tab:gray", "tab:orange"), strict=True)):
    axes.plot(t, curves.x[:, i], color=color, label=name)
    axes.errorbar(points.t, points.x[:, i], 2 * points.stderr[:, i], fmt="o", color=color, capsize=3)
axes.set(xlabel="time", ylabel="temperature", xlim=(0, 16.3), ylim=(-0.03, None))
axes.set_title("Three nodes: random walks (dots, bars of two standard errors) and sparse products (lines)")
axes.legend(frameon=False, ncols=3, loc="upper center")
axes.grid(alpha=0.25)
path = Path(*sys.argv[1:2]) / "heat_on_mesh.png"
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=150)
print(f"Saved {path}")
