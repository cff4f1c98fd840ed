"""
A kernel that is learned, length by length
==========================================

Diffusion and Matérn kernels say that neighbours are alike. Some signals are not like that: they repeat
after a few steps, or neighbours are opposites. The modulation function f, one number for each length of a
walk, can then be learned from the data. Features are linear in f, so that the walks are drawn once.
"""

# %%
# The signal on a grid consists of waves, about six nodes long: white noise, of which a band of eigenvectors
# is left. It is observed at 600 of 1600 nodes, with noise.
import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk
from walkernel.plots import plot_nodes

town, rng = wk.datasets.grid(40, 40), np.random.default_rng(0)
graph = town.graph
band = wk.PowerSeries.from_function(lambda x: np.exp(-((x - 0.75) ** 2) / 0.0144), matrix="combinatorial")
signal = wk.polynomial_operator(graph, band) @ rng.standard_normal(graph.n_nodes)
signal /= signal.std()
observed = rng.choice(graph.n_nodes, 600, replace=False)
hidden = np.setdiff1d(range(graph.n_nodes), observed)
y = signal[observed] + 0.3 * rng.standard_normal(600)

# %%
# Both models maximise the marginal likelihood: the first over lengthscale, amplitude and noise of a diffusion
# kernel, the second over the noise and every value of f.
diffusion = wk.NodeGPRegressor(graph, wk.Diffusion(2.0, matrix="combinatorial"))
free = wk.NodeGPRegressor(
    graph, wk.Diffusion(2.0, matrix="combinatorial"), n_walks=256, learn=("modulation", "noise")
)
means = {}
for name, model in ("diffusion kernel", diffusion), ("learned f", free):
    model.fit(observed, y)
    means[name], std = model.predict(range(graph.n_nodes), return_std=True)
    error = (means[name] - signal)[hidden]
    print(f"{name:17s} error {np.sqrt(np.mean(error**2)):.3f}, ", end="")
    print(f"in intervals of 95 %: {np.mean(abs(error) < 1.96 * std[hidden]):.3f}, noise {model.noise_:.2f}")

# %%
# The learned f has both signs, as waves need it. Both models take some of the noise, whose standard deviation
# is 0.3, for signal.
figure, axes = plt.subplots(1, 3, figsize=(14.5, 4.4), layout="constrained")
plot_nodes(town, signal, label="value", title="Signal", ax=axes[0])
plot_nodes(town, means["learned f"], label="value", title="Posterior mean, learned f", ax=axes[1])
for one in axes[:2]:
    one.collections[1].set_clim(-2.2, 2.2)  # the same colours for signal and mean
for name, model, style in ("diffusion kernel", diffusion, "o-"), ("learned f", free, "s-"):
    f = model.kernel_.modulation(12) * model.amplitude_
    axes[2].plot(range(12), f, style, label=name)
axes[2].axhline(0, color="0.6", linewidth=0.8)
axes[2].set(xlabel="length of a walk", ylabel="f", title="Modulation functions")
axes[2].legend(frameon=False)
plt.show()
