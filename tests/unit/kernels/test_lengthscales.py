"""Lengthscales of kernels: another one of the same kind, and slopes by finite differences."""

import numpy as np
import pytest

import walkernel as wk
from kriging import KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_the_slope_of_f_is_that_of_finite_differences(name):
    kernel, step = KERNELS[name], 1e-5
    scale = kernel.lengthscale
    wide, narrow = (kernel.with_lengthscale(scale * np.exp(e)).modulation(40) for e in (step, -step))
    slope = kernel.modulation_slope(40)
    assert np.abs(slope).max() > 0.01
    assert np.allclose(slope, (wide - narrow) / (2 * step), rtol=1e-6, atol=1e-9)
    assert np.allclose(kernel.modulation_slope(7), slope[:7])


@pytest.mark.parametrize("exponent", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("name", KERNELS)
def test_the_slope_of_the_logarithm_is_a_constant_and_a_growth(name, exponent):
    kernel, step = KERNELS[name], 1e-5
    scale = kernel.lengthscale
    wide, narrow = (kernel.with_lengthscale(scale * np.exp(e)).power(exponent, 20) for e in (step, -step))
    constant, growth = kernel.log_slope(exponent)
    found = np.log(wide / narrow) / (2 * step)
    assert np.allclose(constant + growth * np.arange(20), found, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_another_lengthscale_is_the_same_kernel_otherwise(name):
    kernel = KERNELS[name]
    other = kernel.with_lengthscale(3.25)
    assert other.lengthscale == 3.25
    assert other.matrix == kernel.matrix
    assert other != kernel
    assert other.with_lengthscale(kernel.lengthscale) == kernel


@pytest.mark.parametrize(
    "kernel",
    [
        wk.PowerSeries([1.0, 0.5]),
        wk.PStepRandomWalk(2),
        wk.Diffusion() + wk.Matern(),
        2.0 * wk.InverseCosine(),
    ],
)
def test_kernels_without_a_lengthscale_say_so(kernel):
    assert kernel.lengthscale is None
    for call in (lambda: kernel.with_lengthscale(1.0), lambda: kernel.modulation_slope(3)):
        with pytest.raises(ValueError, match="kernel must be one with a lengthscale, got "):
            call()
