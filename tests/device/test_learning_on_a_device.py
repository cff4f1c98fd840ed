"""Learning and GPyTorch on a CUDA device agree with the CPU, and walks do not leave the device.

Where Triton interprets its kernels, the CPU stands for the device, with the sorts and products of one.
"""

from copy import deepcopy

import gpytorch
import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from walkernel.engines import CUDA, DeviceRecord
from walkernel.torch import (
    FreeModulation,
    GRFKernel,
    NeuralModulation,
    Schedule,
    WalkTensors,
    angular_loss,
    fit_to_kernel,
    fit_to_task,
)

SIZES = wk.Diffusion(1.0).modulation(16)
SAMPLERS = {
    "independent": wk.IndependentWalks(0.3),
    "pruned": wk.PrunedWalks(SIZES, threshold=1e-3, head=3),
    "unequal": wk.PrunedWalks(SIZES, threshold=0.06, head=3, unevenness=3.0, group=8),
}


def on_a_card(test):
    """Mark a test, or a class of them, that nothing can stand in for a CUDA device."""
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")(test))


@pytest.fixture(autouse=True)
def loops_and_sorts_of_devices(monkeypatch):
    for module in ("_sparse", "_walk_tensors"):
        monkeypatch.setattr(f"walkernel.torch.{module}.LOOP_DEVICE", "nowhere")


@pytest.fixture
def engine(device, monkeypatch):
    """An engine whose deposits may not be fetched."""
    monkeypatch.setattr(DeviceRecord, "deposits", None)
    return CUDA(device, "float64")


def both(engine, device, kind="weighted", matrix="normalized", sampler=SAMPLERS["independent"]):
    """Return the same walks of the CPU and of a device as tensors there."""
    options = {"sampler": sampler, "seed": 3, "matrix": matrix}
    return [
        WalkTensors(wk.sample_walks(graphs.KINDS[kind](), 8, engine=each, **options), device=device)
        for each in (None, engine)
    ]


def random(*shape, device, grad=True):
    values = np.random.default_rng(0).standard_normal(shape)
    return torch.tensor(values, device=device, requires_grad=grad)


@pytest.mark.parametrize("matrix", ["normalized", "adjacency"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", ["weighted", "directed", "isolated"])
def test_entries_are_those_of_the_cpu(kind, sampler, matrix, engine, device):
    there, here = both(engine, device, kind, matrix, SAMPLERS[sampler])
    assert (here.shape, here.n_entries, here.n_lengths) == (there.shape, there.n_entries, there.n_lengths)
    assert repr(here) == repr(there)
    f = random(here.n_lengths, device=device)
    x = torch.ones(here.shape[1], 2, dtype=f.dtype, device=device)
    for product in (
        lambda walks: walks.dense(f),
        lambda walks: walks.square_norms(f),
        lambda walks: walks.matmul(f, x),
        lambda walks: walks.t_matmul(f, x),
        lambda walks: walks.gram(f, walks),
    ):
        found, expected = product(here), product(there)
        torch.testing.assert_close(
            found, expected, rtol=1e-12, atol=1e-12 * float(expected.detach().abs().max())
        )
        slopes = [torch.autograd.grad(one.square().sum(), f)[0] for one in (found, expected)]
        torch.testing.assert_close(*slopes, rtol=1e-11, atol=1e-11 * float(slopes[1].abs().max()))


def test_rows_are_selected_on_the_device(engine, device):
    there, here = both(engine, device)
    f, rows = random(6, device=device, grad=False), torch.tensor([7, 0, 7, 29], device=device)
    selected = here.select(rows)
    assert selected.device == here.device
    torch.testing.assert_close(selected.dense(f), there.dense(f)[rows], rtol=1e-12, atol=1e-12)
    assert torch.equal(here.select(rows.int()).dense(f), here.select(rows.cpu().numpy()).dense(f))
    assert here.select(torch.arange(30, device=device)) is here
    x = random(30, 2, device=device, grad=False)
    torch.testing.assert_close(here.matmul_at(rows, f, x), selected.matmul(f, x))
    for wrong, error in ((rows - 1, ValueError), (rows.double(), TypeError), (rows > 0, TypeError)):
        with pytest.raises(error, match=r"WalkTensors\.select: rows must be"):
            here.select(wrong)


def test_long_rows_of_lengths_are_added_up_in_parts(engine, device, monkeypatch):
    there, here = both(engine, device)
    f = random(9, device=device)
    (expected,) = torch.autograd.grad(there.square_norms(f).sum(), f)
    for size in (1, 7, 10**4):
        monkeypatch.setattr("walkernel.torch._sparse.PART_SIZE", size)
        own = here.select(torch.arange(29, -1, -1, device=device))
        torch.testing.assert_close(torch.autograd.grad(own.square_norms(f).sum(), f)[0], expected)


def test_walks_in_single_precision(device):
    there, here = both(CUDA(device), device)
    f = random(8, device=device, grad=False)
    torch.testing.assert_close(here.dense(f), there.dense(f), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("walks", ["fresh", "bank", "expected"])
def test_fit_to_kernel(walks, device):
    graph, kernel = wk.load_dataset("karate").graph, wk.RegularizedLaplacian(2, 0.8)
    found = [
        fit_to_kernel(
            graph, kernel, 4, walks=walks, schedule=Schedule(n_epochs=6), n_held_out=2, n_samples=2,
            modulation=NeuralModulation(decay=0.39, amplitude=0.6, device=where), engine=engine,
        )
        for where, engine in (("cpu", None), (device, CUDA(device, "float64")))
    ]  # fmt: skip
    np.testing.assert_allclose(found[0].history, found[1].history, rtol=1e-6)
    np.testing.assert_allclose(*(fit.modulation.modulation(8) for fit in found), rtol=1e-6)


MESH = wk.datasets.torus_mesh(12, 8)


def task(device, engine, **options):
    """Return a fit on a small mesh."""
    options = {"schedule": Schedule(n_epochs=30), "n_samples": 3, "n_walks": 4} | options
    start = NeuralModulation(decay=0.6, device=device)
    return fit_to_task(MESH.graph, range(96), MESH.normals, modulation=start, engine=engine, **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"walks": "fresh", "schedule": Schedule(n_epochs=3)}, {"batch_size": 4}, {"ensembles": "shared"},
     {"normalize": True}],
)  # fmt: skip
def test_fit_to_task(options, engine, device):
    expected, found = task("cpu", None, **options), task(device, engine, **options)
    np.testing.assert_allclose(found.history, expected.history, rtol=1e-6)
    np.testing.assert_allclose(found.validation, expected.validation, rtol=1e-6)
    np.testing.assert_allclose(*(fit.modulation.modulation(8) for fit in (found, expected)), rtol=1e-6)


def test_losses_that_grow_beyond_all_numbers_are_refused(device, engine):
    """Losses are fetched some epochs later, and the message names the epoch of the first one all the same."""
    messages = []
    for where, each in (("cpu", None), (device, engine)):
        epochs = iter(range(1, 100))

        def loss(prediction, target, epochs=epochs):
            broken = prediction.requires_grad and next(epochs) >= 4
            return angular_loss(prediction, target) * (torch.inf if broken else 1)

        with pytest.raises(ValueError, match="loss must be finite, got inf in epoch 4") as caught:
            task(where, each, loss=loss)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@on_a_card
class TestRecordedSteps:
    """Steps that repeat are recorded as CUDA graphs, and replayed."""

    @pytest.fixture
    def replays(self, monkeypatch):
        """How often graphs were replayed."""
        count, replay = [], torch.cuda.CUDAGraph.replay

        def counted(graph):
            count.append(graph)
            replay(graph)

        monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
        return count

    @pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"normalize": True}])
    def test_numbers_are_those_of_single_steps(self, options, replays, monkeypatch):
        recorded = task("cuda", None, **options)
        assert len(replays) >= 30 - 3, "every sample is recorded when it comes for the second time"
        del replays[:]
        monkeypatch.setattr("walkernel.torch._training.RECORDING_DEVICE", "nowhere")
        single = task("cuda", None, **options)
        assert not replays
        np.testing.assert_allclose(recorded.history, single.history, rtol=1e-9)

    def test_errors_of_kernels(self, replays):
        graph, kernel = wk.load_dataset("karate").graph, wk.RegularizedLaplacian(2, 0.8)
        for walks in ("bank", "expected"):
            options = {"walks": walks, "n_samples": 2, "n_held_out": 2, "schedule": Schedule(n_epochs=12)}
            fit_to_kernel(graph, kernel, 8, modulation=FreeModulation(6, device="cuda"), **options)
            assert len(replays) >= 10
            del replays[:]

    def test_losses_of_others_are_called_for_every_step(self, replays):
        calls = []

        def loss(prediction, target):
            calls.append(float(prediction.sum()))
            return angular_loss(prediction, target)

        task("cuda", None, loss=loss)
        assert len(calls) > 30
        assert not replays

    def test_devices_that_record_nothing(self, monkeypatch):
        """What cannot be recorded is computed, and other work of the device goes on."""
        expected = task("cuda", None).history

        def waiting(self, *args):
            torch.cuda.synchronize()

        monkeypatch.setattr("walkernel.torch._training.check_loss", waiting)
        np.testing.assert_allclose(task("cuda", None).history, expected, rtol=1e-9)
        assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.parametrize("kernel", [wk.Diffusion(2.0), FreeModulation(4, decay=0.5)])
def test_covariances(kernel, device):
    graph = graphs.weighted()
    options = {"n_walks": 8, "sampler": SAMPLERS["independent"]}
    there = GRFKernel(graph, deepcopy(kernel), **options)
    here = GRFKernel(graph, kernel, device=device, engine=CUDA(device, "float64"), **options).to(device)
    nodes = torch.tensor([[3], [0], [29]])
    for other in (nodes, torch.tensor([[1], [3]])):
        found, expected = here(nodes.to(device), other.to(device)), there(nodes, other)
        torch.testing.assert_close(found.to_dense().cpu(), expected.to_dense(), rtol=1e-9, atol=1e-12)
        assert here._walks_from(nodes.to(device)).device.type == device


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_gaussian_process(engine, device):
    graph = wk.datasets.grid(8, 8).graph
    y = torch.sin(torch.arange(40.0, dtype=torch.float64) / 5)
    means = []
    for where, each in (("cpu", None), (device, engine)):
        x = torch.arange(40, device=where)[:, None]
        kernel = GRFKernel(graph, wk.Diffusion(2.0), n_walks=32, device=where, engine=each)
        model = Model(x, y.to(where), kernel).double().to(where).eval()
        with torch.no_grad():
            means.append(model(torch.arange(64, device=where)[:, None]).mean.cpu().numpy())
    np.testing.assert_allclose(*means, rtol=0, atol=1e-6)


@on_a_card
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


@on_a_card
def test_too_little_memory_is_said_with_what_to_do():
    graph = wk.datasets.grid(60, 60).graph
    engine = wk.engines.CUDA(keep_features=False, block_size=1000)
    K = wk.estimate_kernel(graph, wk.Diffusion(), 4, engine=engine)
    with pytest.raises(MemoryError, match="block_size=250"):
        K @ torch.empty(1, device="cuda").expand(3600, 2**26)
