"""How deep the tests go: short for ``make test``, long for ``make test-all``.

Short tests see no data from elsewhere, and none of them sees the user's own cache of data sets.
"""

import os
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("short", deadline=None, max_examples=25, derandomize=True, database=None)
settings.register_profile("long", deadline=None, max_examples=50, derandomize=True, database=None)
DEPTH = os.environ.get("WALKERNEL_TEST_DEPTH", "short")
settings.load_profile(DEPTH)
if DEPTH == "short":
    os.environ.pop("WALKERNEL_DATA", None)
os.environ["WALKERNEL_QUIET"] = "1"  # what is compiled depends on which test comes first
os.environ["WALKERNEL_CACHE"] = os.path.join(tempfile.gettempdir(), "walkernel-tests-without-a-cache")


@pytest.fixture(params=["few walks", "many walks"])
def few_or_many_walks(request, monkeypatch):
    """Errors of products are made of the features of few walks, and of many by walking again."""
    from walkernel.engines import _cpu
    from walkernel.operators import _groups

    if request.param == "many walks":
        monkeypatch.setattr(_cpu, "FEW_WALKS", 0)
        monkeypatch.setattr(_groups, "FEW_TERMS", 0)
