"""How deep the tests go: short for ``make test``, long for ``make test-all``."""

import os

from hypothesis import settings

settings.register_profile("short", deadline=None, max_examples=25, derandomize=True, database=None)
settings.register_profile("long", deadline=None, max_examples=100, derandomize=True, database=None)
settings.load_profile(os.environ.get("WALKERNEL_TEST_DEPTH", "short"))
