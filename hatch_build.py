"""The description and the links that package indexes show.

A package index shows the README without the files beside it, so that its relative links lead nowhere. The
workflow for releases sets ``WALKERNEL_SOURCE_URL`` to the repository's address: links and pictures then point
there, to the tag of the version. Without the variable, links become plain text and pictures are left out.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def with_absolute_links(text: str, source: str, version: str) -> str:
    """Return Markdown with absolute links to files, or without such links if the source is empty."""

    def replace(link: re.Match[str]) -> str:
        is_picture, words, path = link.groups()
        if not source:
            return "" if is_picture else words
        return f"{is_picture}[{words}]({source}/{'raw' if is_picture else 'blob'}/v{version}/{path})"

    return RELATIVE.sub(replace, text)


class DescriptionHook(MetadataHookInterface):
    """Sets the description and the links of the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description, and the links if the address of the source is known."""
        source = os.environ.get("WALKERNEL_SOURCE_URL", "").strip().rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, source, metadata["version"]),
        }
        if source:
            metadata["urls"] = {
                "Source": source,
                "Issues": f"{source}/issues",
                "Changelog": f"{source}/blob/v{metadata['version']}/CHANGELOG.md",
            }
