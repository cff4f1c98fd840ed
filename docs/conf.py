"""How the site is built; ``make docs`` builds it."""

import sys
from pathlib import Path
from typing import Any

import walkernel

sys.path.append(str(Path(__file__).parent))  # for formulas, pictures and the order of the gallery

project, author, copyright = "walkernel", "The walkernel developers", "The walkernel developers"
version = release = walkernel.__version__

extensions = [
    "formulas",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
html_static_path, html_css_files = ["_static"], ["site.css", "gallery.css"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_math_renderer = "picture"
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc writes them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "ignore_pattern": r"^(?!plot_)",  # scripts, which are run as they are
    "within_subsection_order": "gallery_order.Order",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("walkernel",),
    "abort_on_example_error": True,
    "capture_repr": (),
    "image_srcset": ["2x"],
    "show_signature": False,
    "write_computation_times": False,  # pages with scripts of another machine
    "download_all_examples": False,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "walkernel"
html_context = {"default_mode": "auto"}  # the reader's system says whether it is light or dark
html_favicon = "_static/logo.svg"
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "text": "walkernel"},
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["release"],
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
html_show_sourcelink = html_domain_indices = False


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
