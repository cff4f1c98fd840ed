"""Links of the built site.

    python tests/links.py

prints those that lead elsewhere, with the pages that have them.
"""

from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
NAVIGATION = ("next", "prev", "index", "search", "canonical", "author", "copyright")


class Page(HTMLParser):
    """What a page links to, what it loads, and the names that it can be entered at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.names: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the name of an element."""
        of = {key: value or "" for key, value in attrs}
        if "id" in of:
            self.names.append(of["id"])
        if tag in ("a", "area") and of.get("href"):
            self.links.add(of["href"])
        if tag == "link" and "href" in of:
            (self.links if of.get("rel") in NAVIGATION else self.loads).add(of["href"])
        if tag in ("img", "script", "source", "iframe", "video", "audio", "embed"):
            self.loads |= {of["src"]} if "src" in of else set()
            self.loads |= {part.split()[0] for part in of.get("srcset", "").split(",") if part.strip()}


class Links(NamedTuple):
    """What was found on all pages of a site."""

    broken: list[str]
    outside: dict[str, set[str]]
    foreign: list[str]


def is_outside(address: str) -> bool:
    """Return whether an address leads away from the site."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc) and parts.scheme != "data"


def check_links(site: Path = SITE) -> Links:
    """Follow all links of a site: broken ones, those that lead elsewhere, what is loaded from elsewhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    names = {path: set(page.names) for path, page in pages.items()}
    broken: list[str] = []
    foreign: list[str] = []
    outside: dict[str, set[str]] = defaultdict(set)
    for path, page in pages.items():
        name = str(PurePosixPath(path.relative_to(site)))
        foreign += [f"{name}: {address}" for address in page.loads if is_outside(address)]
        for address in page.links | page.loads:
            if is_outside(address):
                outside[address].add(name)
            elif not address.startswith("data:"):
                target, anchor = urldefrag(address)
                file = (path.parent / unquote(urlsplit(target).path)).resolve() if target else path
                file = file / "index.html" if file.is_dir() else file
                if not file.is_file():
                    broken.append(f"{name}: no file {address}")
                elif anchor and unquote(anchor) not in names.get(file, {""}):
                    broken.append(f"{name}: no anchor {address}")
    return Links(broken, dict(outside), foreign)


if __name__ == "__main__":
    for address, found in sorted(check_links().outside.items()):
        print(address, *sorted(found)[:3], *(["…"] if len(found) > 3 else []))
