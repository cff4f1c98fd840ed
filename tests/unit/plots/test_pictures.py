"""Three pictures look as they did; what would be seen at a glance to be wrong differs from them.

Pictures are blurred over two pixels before they are compared, and have neither text nor legends, so that
versions of matplotlib and of its fonts make no difference: between 3.9 and 3.11 it is 1e-7. Run this file
to draw the references again, and look at them.
"""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot, rc_context
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.image import imread
from matplotlib.legend import Legend
from matplotlib.text import Text
from scipy.ndimage import gaussian_filter

import walkernel as wk
from walkernel import plots
from walkernel.datasets import grid, torus_mesh

REFERENCES = Path(__file__).parent / "pictures"
BLUR = 2.0
"""Pixels; a dot of a map has a diameter of about fourteen, and an edge one pixel."""
TOLERANCE = 0.03
"""Largest difference of a blurred colour, of which black and white differ by 1."""


def draw(figure, fill, *, projection=None):
    fill(figure.add_axes((0.03, 0.06, 0.88, 0.88), projection=projection))
    for words in figure.findobj(lambda one: isinstance(one, (Text, Legend))):
        words.set_visible(False)


def heat_on_a_grid(figure, sign=1.0, flip=1.0, observed=(3, 17, 33)):
    town = grid(7, 5)
    x, y = town.coordinates.T / 2
    values = np.where(np.arange(35) == 20, np.nan, sign * (np.sin(x) + np.cos(y)))
    places = town.coordinates * [flip, 1.0]
    draw(figure, lambda ax: plots.plot_nodes(town, values, positions=places, observed=observed, ax=ax))


def groups_of_a_club(figure, order=1):
    club = wk.load_dataset("karate")
    angle = 2 * np.pi * np.arange(34) / 34
    places = np.column_stack([1.5 * np.cos(angle), np.sin(angle)])
    kinds, std = np.array(["a", "b"][::order])[club.labels], 1 + np.arange(34.0) % 3
    draw(figure, lambda ax: plots.plot_nodes(club, kinds, std, positions=places, ax=ax))


def height_of_a_ring(figure, sign=1.0):
    ring = torus_mesh(24, 12)
    values = sign * ring.coordinates[:, 0]
    draw(figure, lambda ax: plots.plot_mesh(ring, values, center=0.0, ax=ax), projection="3d")


PICTURES = heat_on_a_grid, groups_of_a_club, height_of_a_ring


def picture(fill, change=None, **options):
    """Return a picture as an array (height, width, 3) of numbers from 0 to 1."""
    with rc_context():
        pyplot.rcdefaults()
        figure = pyplot.figure(figsize=(3.2, 2.4), dpi=100)
        fill(figure, **options)
        if change is not None:
            change(figure)
        figure.canvas.draw()
        result = np.asarray(figure.canvas.buffer_rgba())[:, :, :3] / 255
        pyplot.close(figure)
    return result


def difference(one, other):
    return np.abs(gaussian_filter(one - other, (BLUR, BLUR, 0))).max()


def reference(fill):
    return imread(REFERENCES / f"{fill.__name__}.png")[:, :, :3]


def remove_edges(figure):
    for lines in figure.findobj(LineCollection):
        lines.remove()


def edges_in_front(figure):
    for lines in figure.findobj(LineCollection):
        lines.set_zorder(9)


def equal_dots(figure):
    for dots in figure.findobj(PathCollection):
        dots.set_sizes([80.0])


def one_colour(figure):
    surface = figure.axes[0].collections[0]
    surface.set_facecolor("0.7")


@pytest.mark.parametrize("fill", PICTURES)
def test_pictures_look_as_they_did(fill):
    assert difference(picture(fill), reference(fill)) < TOLERANCE


@pytest.mark.parametrize(
    ("fill", "change", "options"),
    [
        (heat_on_a_grid, None, {"sign": -1.0}),
        (heat_on_a_grid, None, {"flip": -1.0}),
        (heat_on_a_grid, None, {"observed": None}),
        (heat_on_a_grid, None, {"observed": (3, 17, 32)}),
        (heat_on_a_grid, remove_edges, {}),
        (groups_of_a_club, None, {"order": -1}),
        (groups_of_a_club, remove_edges, {}),
        (groups_of_a_club, edges_in_front, {}),
        (groups_of_a_club, equal_dots, {}),
        (height_of_a_ring, None, {"sign": -1.0}),
        (height_of_a_ring, one_colour, {}),
    ],
)
def test_wrong_pictures_differ(fill, change, options):
    assert difference(picture(fill, change, **options), reference(fill)) > 1.5 * TOLERANCE


def test_references_are_small():
    found = {path.stem: path.stat().st_size for path in REFERENCES.iterdir()}
    assert set(found) == {fill.__name__ for fill in PICTURES}
    assert max(found.values()) < 40_000


if __name__ == "__main__":
    REFERENCES.mkdir(exist_ok=True)
    for each in PICTURES:
        pyplot.imsave(REFERENCES / f"{each.__name__}.png", picture(each), metadata={"Software": None})
