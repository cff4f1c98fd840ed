"""The pictures that the site draws of itself: one for each kernel, and none that no page shows."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import walkernel as wk

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_kernel_has_a_picture_at_two_widths(pictures):
    named = {one for one in vars(wk.kernels).values() if isinstance(one, type) and issubclass(one, wk.Kernel)}
    drawn = {type(kernel) for widths in pictures.KERNELS.values() for _, kernel in widths}
    assert drawn == {one for one in named if one.__name__ in wk.__all__} - {wk.Kernel}
    assert all(first != second for (_, first), (_, second) in pictures.KERNELS.values())


def test_pages_show_the_pictures_that_are_drawn(pictures):
    shown = {
        name for page in DOCS.glob("*.md") for name in re.findall(r"pictures/([\w-]+)\.png", page.read_text())
    }
    assert shown == set(pictures.PICTURES)


def test_a_picture_has_one_colour_scale(pictures, tmp_path):
    figure = pictures.draw_kernel("diffusion", "Diffusion")
    panels = [axes for axes in figure.axes if axes.collections and axes.get_title() != "<colorbar>"][:4]
    scales = [dots.norm for axes in panels for dots in axes.collections if dots.get_array() is not None]
    assert len(scales) >= 4
    assert all(scale is pictures.SCALE for scale in scales)
    (path,) = pictures.draw_all(tmp_path, ["kernel-diffusion"])
    made = path.stat().st_mtime_ns
    pixels = np.asarray(Image.open(path).convert("L"))
    assert pixels.shape == (880, 800)
    assert 0.02 < (pixels < 200).mean() < 0.4
    assert pictures.draw_all(tmp_path, ["kernel-diffusion"]) == [path]
    assert path.stat().st_mtime_ns == made  # kept, since it is newer than what draws it
