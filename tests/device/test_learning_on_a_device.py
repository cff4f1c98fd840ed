"""Learning and GPyTorch on a CUDA device agree with the CPU."""

import gpytorch
import numpy as np
import pytest
import torch

import walkernel as wk
from walkernel.torch import GRFKernel, NeuralModulation, Schedule, fit_to_kernel, fit_to_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("walks", ["fresh", "bank", "expected"])
def test_fit_to_kernel(walks):
    graph, kernel = wk.load_dataset("karate").graph, wk.RegularizedLaplacian(2, 0.8)
    found = [
        fit_to_kernel(
            graph, kernel, 16, walks=walks, schedule=Schedule(n_epochs=60), n_held_out=4,
            modulation=NeuralModulation(decay=0.39, amplitude=0.6, device=device),
        ).modulation.modulation(8)
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_fit_to_task():
    mesh = wk.datasets.torus_mesh(20, 10)
    found = [
        fit_to_task(
            mesh.graph, range(200), mesh.normals, schedule=Schedule(n_epochs=30),
            modulation=NeuralModulation(decay=0.6, device=device),
        ).modulation.modulation(8)
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_gaussian_process():
    graph = wk.datasets.grid(8, 8).graph
    y = torch.sin(torch.arange(40.0, dtype=torch.float64) / 5)
    means = []
    for device in ("cpu", "cuda"):
        x = torch.arange(40, device=device)[:, None]
        model = Model(
            x, y.to(device), GRFKernel(graph, wk.Diffusion(2.0), n_walks=32, device=device)
        ).double()
        model = model.to(device).eval()
        with torch.no_grad():
            means.append(model(torch.arange(64, device=device)[:, None]).mean.cpu().numpy())
    np.testing.assert_allclose(*means, rtol=0, atol=1e-6)


def test_conjugate_gradients_on_the_device():
    """Above its limit for Cholesky factors GPyTorch iterates with products of the operator."""
    graph = wk.datasets.grid(40, 40).graph
    y = torch.sin(torch.arange(1200.0, dtype=torch.float64) / 50)
    means = []
    for device, limit in (("cpu", 10**4), ("cuda", 10)):
        x = torch.arange(1200, device=device)[:, None]
        model = Model(
            x, y.to(device), GRFKernel(graph, wk.Diffusion(2.0), n_walks=16, device=device)
        ).double()
        model = model.to(device).eval()
        with (
            torch.no_grad(),
            gpytorch.settings.max_cholesky_size(limit),
            gpytorch.settings.eval_cg_tolerance(1e-4),
            gpytorch.settings.max_cg_iterations(2000),
        ):
            means.append(model(torch.arange(1600, device=device)[:, None]).mean.cpu().numpy())
    np.testing.assert_allclose(*means, rtol=0, atol=1e-3)


def test_too_little_memory_is_said_with_what_to_do():
    graph = wk.datasets.grid(60, 60).graph
    engine = wk.engines.CUDA(keep_features=False, block_size=1000)
    K = wk.estimate_kernel(graph, wk.Diffusion(), 4, engine=engine)
    with pytest.raises(MemoryError, match="block_size=250"):
        K @ torch.empty(1, device="cuda").expand(3600, 2**26)
