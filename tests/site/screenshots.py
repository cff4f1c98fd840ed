"""Save pictures of pages of the built site, at both widths and in both themes, to be looked at.

python tests/site/screenshots.py FOLDER [PAGE ...]
"""

import base64
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from browser import THEMES, WIDTHS, start_browser

PAGES = (
    "index.html",
    "start.html",
    "tools.html",
    "guides/index.html",
    "api/generated/walkernel.NodeGPRegressor.html",
    "errors.html",
)
TALLEST = 6000  # pixels


def main(folder: str, *pages: str) -> None:
    """Save one picture of each whole page, width and theme."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with start_browser() as browser:
        for page in pages or PAGES:
            for width in WIDTHS:
                for theme in THEMES:
                    browser.open(page, width, theme)
                    height = min(browser.run("return document.documentElement.scrollHeight"), TALLEST)
                    area = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                    shot = browser.driver.execute_cdp_cmd(
                        "Page.captureScreenshot", {"clip": area, "captureBeyondViewport": True}
                    )
                    name = f"{page.removesuffix('.html').replace('/', '_')}-{width}-{theme}.png"
                    Path(folder, name).write_bytes(base64.b64decode(shot["data"]))
                    print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
