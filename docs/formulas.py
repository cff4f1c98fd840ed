"""Formulas as pictures in the page itself: they need no script, no font and no other machine."""

import re
from html import escape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from ziamath import Math, config
from ziamath.tex import tex2mml

EM, SCALE = (
    16.0,
    1.1,
)  # units of 1 em; letters in formulas are drawn larger, to be as high as those around them
WIDE_HAT, HAT = "<mo>&#x00302;</mo>", "<mo>&#x002C6;</mo>"  # the former is drawn wider than a letter
LOGGER = logging.getLogger(__name__)
config.svg2 = False  # outlines where they are used, without ids that a page would have twice
config.math.color = "currentColor"


def draw(tex: str, display: bool) -> str:
    """Return a formula in TeX as an SVG element in the colour and size of the text."""
    words = re.sub(r"\\text\{.*?\}", lambda text: text[0].replace(r"\_", "_"), tex)
    mathml = tex2mml(words, inline=not display).replace(WIDE_HAT, HAT)
    svg = Math(mathml, size=SCALE * EM).svgxml()
    _, top, width, height = (float(number) / EM for number in svg.attrib["viewBox"].split())
    style = f"width: {width:.3f}em; height: {height:.3f}em; vertical-align: {-(top + height):.3f}em"
    svg.attrib |= {"class": "formula", "style": style, "role": "img", "aria-label": tex}
    return ElementTree.tostring(svg, encoding="unicode")


def align(tex: str) -> str:
    r"""Return a formula of several lines, ended by \\ or an empty line, as one that aligns them at &."""
    lines = r" \\ ".join(re.split(r"\n\s*\n", tex.strip()))
    outside = re.sub(r"\\begin\{(.*?)\}.*?\\end\{\1\}", "", lines, flags=re.S)
    return rf"\begin{{aligned}}{lines}\end{{aligned}}" if r"\\" in outside else lines


def render(node: nodes.Element, display: bool) -> str:
    """Return the formula of a node, or its TeX, with a warning, where it cannot be drawn."""
    tex = node.astext().strip()
    try:
        return draw(align(tex) if display else tex, display)
    except Exception as error:
        LOGGER.warning("formula %r cannot be drawn: %s", tex, error, location=node)
        return f"<code>{escape(tex)}</code>"


def visit_inline(visitor: Any, node: nodes.Element) -> None:
    """Write a formula within a line."""
    # the joiner keeps a comma behind the formula on its line
    visitor.body.append(f"{render(node, display=False)}&#8288;")
    raise nodes.SkipNode


def visit_block(visitor: Any, node: nodes.Element) -> None:
    """Write a formula of its own, with its number if it has one."""
    ids = "".join(f' id="{name}"' for name in node.get("ids", [])[:1])
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    visitor.body.append(f'<div class="math"{ids}>{number}{render(node, display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, which ``html_math_renderer = "picture"`` takes."""
    app.add_html_math_renderer("picture", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
