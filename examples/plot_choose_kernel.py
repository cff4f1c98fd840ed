"""
Choosing a kernel by its likelihood
===================================

Which kernel, and how wide? The marginal likelihood answers from the training data alone, without a grid
search and without a validation set. The question is whether its answer is good at nodes that it has not
seen: here we know, because the other nodes are at hand.
"""

# %%
# The signal is rough: it is drawn with a Matérn kernel on a grid, and 400 of its 1600 values are observed
# with noise of standard deviation 0.3.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import walkernel as wk

graph, rng = wk.datasets.grid(40, 40).graph, np.random.default_rng(0)
true = wk.Matern(nu=1.0, kappa=20.0, matrix="combinatorial")
root = wk.Matern(nu=0.5, kappa=20.0 / np.sqrt(2), matrix="combinatorial")  # its square is the true kernel
signal = wk.polynomial_operator(graph, root) @ rng.standard_normal(graph.n_nodes)
signal = (signal - signal.mean()) / signal.std()
y = signal + 0.3 * rng.standard_normal(graph.n_nodes)
observed = rng.choice(graph.n_nodes, 400, replace=False)
hidden = np.setdiff1d(range(graph.n_nodes), observed)

# %%
# Without a kernel, ``NodeGPRegressor`` compares Diffusion and Matérn kernels of many widths and keeps what
# it has found.
chosen = wk.NodeGPRegressor(graph).fit(observed, y[observed])
print("chosen:", chosen.kernel_)
print("true:  ", true)


# %%
# Each width is now fitted by itself and judged twice: by its likelihood, and by the density that it gives to
# the 1200 observations that it has not seen.
def density_of_hidden(model):
    """Return the mean logarithm of the predicted density of hidden observations."""
    mean, std = model.predict(hidden, return_std=True)
    return norm.logpdf(y[hidden], mean, np.hypot(std, model.noise_)).mean()


widths = np.geomspace(1, 50, 8)
families = {
    "Diffusion(width)": lambda width: wk.Diffusion(width, matrix="combinatorial"),
    "Matern(1, width)": lambda width: wk.Matern(1.0, width, matrix="combinatorial"),
}
likelihood, density = np.empty((2, 2, widths.size))
for i, family in enumerate(families.values()):
    for j, width in enumerate(widths):
        model = wk.NodeGPRegressor(graph, family(width), learn=("amplitude", "noise"))
        likelihood[i, j] = model.fit(observed, y[observed]).log_marginal_likelihood_value_ / observed.size
        density[i, j] = density_of_hidden(model)
found = density_of_hidden(chosen)
most_likely = density.ravel()[likelihood.argmax()]
print(f"log density of hidden values: chosen {found:.3f}, most likely width {most_likely:.3f}, ", end="")
print(f"best width {density.max():.3f}, worst {density.min():.3f}")

# %%
# Both curves rise and fall together, so that the kernel of the largest likelihood predicts well.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.3), layout="constrained")
for name, own, hidden_own in zip(families, likelihood, density, strict=True):
    axes[0].plot(widths, own, "o-", label=name)
    axes[1].plot(widths, hidden_own, "o-", label=name)
axes[0].set(ylabel="per observation", title="Log marginal likelihood")
axes[1].axhline(found, color="k", linestyle="--", label="chosen by NodeGPRegressor")
axes[1].set(ylabel="per node", title="Log density of the hidden observations")
for one in axes:
    one.set(xscale="log", xlabel="width")
    one.legend(frameon=False)
    one.grid(alpha=0.25)
plt.show()
