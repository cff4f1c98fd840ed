"""Features in memory and counted walks, for the tests of features in files."""

import pytest

import walkernel as wk
from stored import GRAPH, KERNEL
from walkernel.engines import CPU


@pytest.fixture(scope="module")
def memory():
    return wk.sample_features(GRAPH, KERNEL, 8)


@pytest.fixture
def walked(monkeypatch):
    """The start nodes of all features that were made, call by call."""
    calls, make = [], CPU.features

    def counted(self, job, *rest):
        calls.append(job.spec.ids.tolist())
        return make(self, job, *rest)

    monkeypatch.setattr(CPU, "features", counted)
    return calls
