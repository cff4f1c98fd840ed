"""One suite over all engines that need nothing but this machine, and how engines are named."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from engines import Processes, Reference
from walkernel.engines import resolve
from walkernel.testing import EngineSuite


class TestCPU(EngineSuite):
    def make_engine(self):
        return wk.engines.CPU()


class TestReference(EngineSuite):
    rtol = 1e-12

    def make_engine(self):
        return Reference()


@pytest.mark.deep
class TestProcesses(EngineSuite):
    rtol = 1e-12

    def make_engine(self):
        return Processes()


def test_one_method_gives_kernels_error_bars_clusters_and_gaussian_processes():
    graph, engine = graphs.karate(), Processes()
    K = wk.estimate_kernel(graph, wk.Diffusion(1.0), 64, ensembles="shared", engine=engine)
    expected = wk.estimate_kernel(graph, wk.Diffusion(1.0), 64, ensembles="shared")
    assert np.allclose(K.estimate(0, 33).stderr, expected.estimate(0, 33).stderr, rtol=1e-9)
    labels = wk.KernelKMeans(2, random_state=0).fit(K).labels_
    assert wk.clustering_error(labels, wk.load_dataset("karate").labels) < 0.2
    found, other = (wk.gp_posterior(each, [0, 33], [1.0, -1.0], [1, 30], noise=0.1) for each in (K, expected))
    assert np.allclose(found.mean, other.mean, rtol=1e-8)


def test_names(monkeypatch):
    assert resolve(None) == resolve("cpu") == wk.engines.CPU()
    monkeypatch.setenv("WALKERNEL_ENGINE", "cpu")
    assert resolve(None) == wk.engines.CPU()
    assert resolve(wk.engines.CPU(2)) == wk.engines.CPU(2) != wk.engines.CPU(3)


@pytest.mark.parametrize(
    ("engine", "error", "message"),
    [
        ("gpu", ValueError, r"sample_walks: engine must be None, 'cpu', 'cuda', .* got 'gpu'"),
        (3, TypeError, "engine must be None"),
        (wk.engines.CPU, TypeError, "engine must be None"),
    ],
)
def test_unknown_engines_are_refused(engine, error, message):
    with pytest.raises(error, match=message):
        wk.sample_walks(graphs.karate(), 2, engine=engine)


def test_an_unknown_name_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("WALKERNEL_ENGINE", "gpu")
    with pytest.raises(ValueError, match="WALKERNEL_ENGINE must be None, 'cpu'"):
        wk.sample_walks(graphs.karate(), 2)
