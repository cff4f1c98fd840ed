"""A real browser and the built site: Chromium without a window, and a server on this machine."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from links import SITE

T = TypeVar("T")
PATIENCE = 60  # seconds
WIDTHS = {1280: 900, 400: 800}  # a laptop and a telephone: width and height in pixels
THEMES = ("light", "dark")
NAMES = ("google-chrome", "chromium", "chromium-browser")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Quiet(SimpleHTTPRequestHandler):
    """Serve files, and write no log."""

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


class Browser:
    """Chromium at a width and in a theme, with the log of what it asked for and complained about."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, page: str, width: int, theme: str = "light") -> None:
        """Load a page of the site as on a first visit; the logs start anew."""
        self.forget()
        self.resize(width)
        self.prefer(theme)
        self.driver.get(self.address + page)
        self.run(
            """
            for (const image of document.images) image.loading = "eager";
            await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
            await document.fonts.ready;
            """
        )

    def resize(self, width: int) -> None:
        """Set the width of the page, which a window without a screen cannot be made as small as."""
        metrics = {"width": width, "height": WIDTHS[width], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, theme: str) -> None:
        """Let the reader's system prefer light or dark pages, and nothing that moves."""
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def theme(self) -> str:
        """Return the theme that the page has."""
        return self.run("return document.documentElement.dataset.theme")

    def wear(self, theme: str) -> None:
        """Change the page as the reader's system does at night, and wait until it has."""
        self.prefer(theme)
        self.wait(lambda _: self.theme() == theme)

    def run(self, script: str, *args: object) -> Any:
        """Return what an asynchronous function of this body returns in the page."""
        return self.driver.execute_script(f"return (async function () {{{script}}})(...arguments)", *args)

    def find(self, selector: str) -> WebElement:
        """Return the first element that is seen on the page, waiting for it for a while."""

        def seen(driver: webdriver.Chrome) -> WebElement | None:
            found = driver.find_elements("css selector", selector)
            return next((element for element in found if element.is_displayed()), None)

        return self.wait(seen)

    def wait(self, condition: Callable[[webdriver.Chrome], T]) -> T:
        """Return what a function of the driver returns once it is true."""
        return WebDriverWait(self.driver, PATIENCE).until(condition)

    def forget(self) -> None:
        """Drop the logs and what the site stored."""
        self.driver.get("about:blank")
        stored = {"origin": self.address, "storageTypes": "local_storage"}
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", stored)
        self.driver.get_log("browser")
        self.driver.get_log("performance")

    def complaints(self) -> list[str]:
        """Return the errors and warnings of the console."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        urls = [request["request"]["url"] for request in sent]
        return [url for url in urls if urlsplit(url).scheme not in ("data", "about")]


@contextmanager
def start_browser(folder: Path = SITE) -> Iterator[Browser]:
    """Serve the site, start Chromium with an empty profile, and yield it."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        raise FileNotFoundError("install chromium and chromedriver: apt-get install chromium chromium-driver")
    if not (folder / "index.html").is_file():
        raise FileNotFoundError(f"{folder} has no site: run `make docs` first")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile, serve(folder) as address:
        for option in (*OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
        try:
            yield Browser(driver, address)
        finally:
            driver.quit()
