"""How the site is built; ``make docs`` builds it."""

import sys
from pathlib import Path
from typing import Any

import walkernel

sys.path.append(str(Path(__file__).parent))  # for pictures.py

project, author, copyright = "walkernel", "The walkernel developers", "The walkernel developers"
version = release = walkernel.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc writes them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "walkernel"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["last-updated"],
}
FLAT = (
    "index",
    "start",
    "tools",
    "choosing",
    "how_it_works",
    "extending",
    "paper",
    "benchmarks",
    "glossary",
    "errors",
    "scale",
)
html_sidebars = {page: [] for page in FLAT}
html_show_sourcelink = False


def is_inherited(app: Any, what: str, name: str, member: object, skip: bool, options: Any) -> bool | None:
    """Leave out members that scikit-learn, SciPy and PyTorch have defined, and describe themselves."""
    return True if not (getattr(member, "__module__", None) or "walkernel").startswith("walkernel") else None


def draw_pictures(app: Any) -> None:
    """Draw the pictures of the pages on concepts, which are not kept in the repository."""
    from pictures import draw_all

    draw_all()


def setup(app: Any) -> None:
    """Register what is above."""
    app.connect("builder-inited", draw_pictures)
    app.connect("autodoc-skip-member", is_inherited)
