"""Learn a kernel on a graph with GPyTorch: a lengthscale, and then the modulation function itself.

The hidden signal on a grid of 40 × 40 nodes consists of waves, about six nodes long: of white noise, a band
of the Laplacian's eigenvectors is left. It is observed at 600 nodes, with noise. Two exact Gaussian processes
maximise the marginal likelihood, on the same walks, which are weighed anew in each of 100 steps. The first
learns the lengthscale of a diffusion kernel and its amplitude, but no diffusion kernel has waves. The second
learns the modulation function f, a number for each length of walks, and finds the band. The kernel that the
signal was made with, which neither knows, says what is possible. NLPD is the negative logarithm of the
density that was predicted for new observations, on average.
"""

import sys
import time
from pathlib import Path

import gpytorch
import matplotlib
import numpy as np
import torch
from matplotlib import pyplot

import walkernel as wk
from walkernel.datasets import grid
from walkernel.torch import FreeModulation, GRFKernel

SIZE, OBSERVED, NOISE, TERMS, STEPS = 40, 600, 0.3, 14, 100


def band(x, power=1.0):
    """Return the strength of an eigenvector of M = I − L/4 with eigenvalue x in the signal, to a power."""
    return np.exp(-power * (0.75 - x) ** 2 / (2 * 0.06**2))


class NodeGP(gpytorch.models.ExactGP):
    """An exact Gaussian process whose inputs are nodes."""

    def __init__(self, nodes, targets, covariance):
        super().__init__(nodes, targets, gpytorch.likelihoods.GaussianLikelihood())
        self.mean, self.covariance = gpytorch.means.ConstantMean(), covariance
        self.double()

    def forward(self, nodes):
        """Return the prior at some nodes."""
        return gpytorch.distributions.MultivariateNormal(self.mean(nodes), self.covariance(nodes))


def trained(model):
    """Climb the marginal likelihood by Adam."""
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.08)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = -objective(model(*model.train_inputs), model.train_targets)
        loss.backward()
        optimizer.step()
    return model.eval()


graph = grid(SIZE, SIZE).graph
rng = np.random.default_rng(0)
root = wk.PowerSeries.from_function(lambda x: band(x, 0.5), matrix="combinatorial")
smooth = wk.polynomial_operator(graph, root)
scale = np.sqrt(np.mean(smooth.to_dense() ** 2) * graph.n_nodes)
truth = smooth @ rng.standard_normal(graph.n_nodes) / scale
noisy = truth + NOISE * rng.standard_normal(graph.n_nodes)
observed = rng.choice(graph.n_nodes, OBSERVED, replace=False)
rest = np.setdiff1d(np.arange(graph.n_nodes), observed)


def report(name, mean, std, *learned):
    """Print errors at the nodes that were not observed; std is that of new observations."""
    rmse = np.sqrt(np.mean((mean - truth)[rest] ** 2))
    surprise = (noisy - mean)[rest] ** 2 / std[rest] ** 2 + np.log(2 * np.pi * std[rest] ** 2)
    print(f"{name:12s} {rmse:7.3f} {surprise.mean() / 2:7.3f}", *learned)


start = wk.Diffusion(2.0, matrix="combinatorial")
sampler = wk.choose_sampler(graph, start, wk.Diffusion(6.0, matrix="combinatorial"), n_walks=256)
free = FreeModulation(start.modulation(TERMS), decay=0.8)
covariances = {
    "lengthscale": gpytorch.kernels.ScaleKernel(GRFKernel(graph, start, sampler=sampler)),
    "free f": GRFKernel(graph, free, sampler=sampler, matrix="combinatorial"),
}
nodes, targets = torch.as_tensor(observed), torch.as_tensor(noisy[observed])
print(f"{graph}, {OBSERVED} nodes observed with noise {NOISE}\n")
print("learned         RMSE    NLPD   noise  seconds")
means = {}
for name, covariance in covariances.items():
    begin = time.perf_counter()
    model = trained(NodeGP(nodes, targets, covariance))
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        found = model.likelihood(model(torch.arange(graph.n_nodes)))
        noise = model.likelihood.noise.sqrt().item()
    means[name] = found.mean.numpy()
    report(name, means[name], found.stddev.numpy(), f"{noise:7.3f} {seconds:8.1f}")

K = smooth.to_dense() @ smooth.to_dense() / scale**2
solved = np.linalg.solve(K[np.ix_(observed, observed)] + NOISE**2 * np.eye(OBSERVED), K[observed])
explained = np.sum(K[observed] * solved, axis=0)
report("true kernel", solved.T @ noisy[observed], np.sqrt(K.diagonal() - explained + NOISE**2))

matplotlib.use("agg")
figure, panels = pyplot.subplots(1, 4, figsize=(14.5, 4.1), layout="constrained")
maps = {"Hidden signal, and where it is observed": truth}
maps |= {f"Error of the mean, {name} learned": mean - truth for name, mean in means.items()}
for axes, (title, values) in zip(panels, maps.items(), strict=False):
    image = axes.imshow(values.reshape(SIZE, SIZE), cmap="RdBu_r", vmin=-2.5, vmax=2.5)
    axes.set_title(title, fontsize=11)
    axes.set(xticks=[], yticks=[])
panels[0].scatter(observed % SIZE, observed // SIZE, s=4, c="k", linewidths=0)
bar = {"location": "bottom", "shrink": 0.4, "aspect": 40, "pad": 0.02, "extend": "both"}
figure.colorbar(image, ax=panels[:3], label="signal, and error", **bar)

x = np.linspace(0, 1, 401)
spectra = {
    "true kernel": band(x),
    "lengthscale learned": covariances["lengthscale"].base_kernel.as_kernel().spectrum(x),
    "free f learned": covariances["free f"].as_kernel().spectrum(x),
}
styles = ({"color": "0.75", "linewidth": 6}, {"color": "tab:blue"}, {"color": "tab:red"})
for (name, values), style in zip(spectra.items(), styles, strict=True):
    panels[3].plot(1 - x, values / values.max(), label=name, **style)
panels[3].set(xlim=(0, 1), ylim=(0, None), xlabel="eigenvalue of L / 4", ylabel="kernel, scaled", yticks=[])
panels[3].set_title("Kernels as functions of the Laplacian", fontsize=11)
panels[3].legend(frameon=False)
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "gpytorch_regression.png"
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=110)
print(f"\nSaved {path}")
