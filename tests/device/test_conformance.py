"""The suite that engines inherit, on a device: double precision to rounding, single to six digits."""

import pytest
import torch

from walkernel.engines import CUDA
from walkernel.testing import EngineSuite


class OnDevice(EngineSuite):
    dtype, keep_features, block_size = "float64", True, None

    @pytest.fixture(autouse=True)
    def _find(self, device):
        self.device = device

    def make_engine(self):
        return CUDA(self.device, self.dtype, self.keep_features, self.block_size)


@pytest.mark.usefixtures("groups_on_device")
class TestDouble(OnDevice):
    rtol = 1e-12


class TestSingle(OnDevice):
    dtype, rtol = "float32", 1e-5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.usefixtures("groups_on_device")
class TestWalkedAgain(OnDevice):
    keep_features, block_size, rtol = False, 7, 1e-12
