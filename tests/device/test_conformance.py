"""The suite that engines inherit, on a device: double precision to rounding, single to six digits."""

import pytest

from walkernel.engines import CUDA
from walkernel.testing import EngineSuite


class OnDevice(EngineSuite):
    dtype = "float64"

    @pytest.fixture(autouse=True)
    def _find(self, device):
        self.device = device

    def make_engine(self):
        return CUDA(self.device, self.dtype)


class TestDouble(OnDevice):
    rtol = 1e-12


class TestSingle(OnDevice):
    dtype, rtol = "float32", 1e-5
