"""
Heat on a mesh
==============

A spot of a surface is hot at first, another is heated all the time. How does the heat spread? Along each
edge it flows in proportion to the difference of temperature: x' = −(D − A) x + y, with the heater y. Sparse
products solve this for the whole surface. Random walks answer for single nodes, at a cost that does not
grow with the mesh, and with error bars.
"""

# %%
# The surface is a ring of 1800 corners. ``spot`` is a round patch of heat around a corner.
import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk
from walkernel.plots import plot_mesh

ring = wk.datasets.torus_mesh(60, 30)
graph, places = ring.graph, ring.coordinates


def spot(node, radius=0.25):
    return np.exp(-((np.linalg.norm(places - places[node], axis=1) / radius) ** 2))


hot, heated = np.argmax(places @ [[-1.0, 0.7], [-0.3, -0.7], [0.5, 0.2]], axis=0)
heat = {"initial": spot(hot), "source": 0.15 * spot(heated), "matrix": "combinatorial"}
whole = wk.solve_ode(graph, t=[0.1, 4, 16], **heat)

# %%
# The same equation, at three nodes only, from 512 walks each.
watched = {
    "hot at first": hot,
    "halfway": int(np.argmin(np.linalg.norm(places - (places[hot] + places[heated]) / 2, axis=1))),
    "heated": heated,
}
nodes, t = list(watched.values()), np.arange(1, 65) / 4
exact = wk.solve_ode(graph, t=t, nodes=nodes, **heat)
walks = wk.solve_ode(graph, t=t[3::8], nodes=nodes, n_walks=512, **heat)
error = walks.x - exact.x[3::8]
print(f"largest error {abs(error).max():.3f}, standard errors up to {walks.stderr.max():.3f}")
print(f"{(abs(error) < 2 * walks.stderr).sum()} of {error.size} estimates within two standard errors")

# %%
# Each surface has a colour scale of its own. Below, all times share the walks of a node, so that its errors
# have the same sign for a while.
figure = plt.figure(figsize=(11, 7.2), layout="constrained")
upper, lower = figure.subfigures(2, 1, height_ratios=(1, 1))
panels = upper.subplots(1, 3, subplot_kw={"projection": "3d", "azim": -70, "elev": 40})
for one, time, x in zip(panels, whole.t, whole.x, strict=True):
    plot_mesh(ring, x, label="temperature", title=f"time {time:g}", ax=one)
curves = lower.subplots()
for i, name in enumerate(watched):
    (line,) = curves.plot(t, exact.x[:, i], label=name)
    style = {"fmt": "o", "capsize": 3, "color": line.get_color()}
    curves.errorbar(walks.t, walks.x[:, i], 2 * walks.stderr[:, i], **style)
curves.set(xlabel="time", ylabel="temperature", ylim=(-0.05, None))
curves.set_title("Lines: sparse products; dots: random walks, with bars of two standard errors")
curves.legend(frameon=False, ncols=3)
curves.grid(alpha=0.25)
plt.show()
