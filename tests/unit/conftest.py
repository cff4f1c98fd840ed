"""Features in memory and counted walks, for the tests of features in files."""

import pytest

import walkernel as wk
from stored import GRAPH, KERNEL
from walkernel import storing


@pytest.fixture(scope="module")
def memory():
    return wk.sample_features(GRAPH, KERNEL, 8)


@pytest.fixture
def walked(monkeypatch):
    """The numbers of start nodes of all calls of ``walk_job``."""
    calls, walk = [], storing.walk_job

    def counted(job, *rest):
        calls.append(job.spec.ids.tolist())
        return walk(job, *rest)

    monkeypatch.setattr(storing, "walk_job", counted)
    return calls
