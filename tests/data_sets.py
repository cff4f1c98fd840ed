"""Marks for tests of data sets: ``make test-all`` runs them where ``WALKERNEL_DATA`` names a folder."""

import os

import pytest

DATA = os.environ.get("WALKERNEL_DATA")
needs_data = [
    pytest.mark.deep,
    pytest.mark.skipif(not DATA, reason="WALKERNEL_DATA is not set: no data files here"),
]
