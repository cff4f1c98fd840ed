"""Pages of the built site in a real browser, in light and dark, as wide as a laptop and a telephone."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from browser import THEMES, WIDTHS, Browser
from links import SITE


def pages(pattern: str) -> list[str]:
    """Return the pages of the site whose names fit."""
    return sorted(path.relative_to(SITE).as_posix() for path in SITE.glob(pattern))


NOT_IN_MENUS = ("index.html", "genindex.html", "search.html")
TOP = [page for page in [*pages("*.html"), *pages("*/index.html")] if page not in NOT_IN_MENUS]
API = [f"api/generated/walkernel.{name}.html" for name in ("NodeGPRegressor", "Graph", "estimate_kernel")]
GALLERY = [page for page in pages("**/plot_*.html") if not page.startswith("_")]
LOOKED_AT = [*TOP, *NOT_IN_MENUS, *pages("guides/[!i]*.html")[:2], *API, *GALLERY[:1]]
PAGES = [page for page in pages("**/*.html") if not page.startswith("_")]
CONTRAST = 4.5  # what WCAG 2 asks for
CHECKS = (Path(__file__).parent / "checks.js").read_text()
PARTS = (".bd-content", ".bd-header", ".bd-footer")


def ask(browser: Browser, check: str, *args: object) -> list[str]:
    """Return what is wrong with the page by one of the checks."""
    return browser.run(f"{CHECKS}; return {check}(...arguments)", *args)


def check_loaded(browser: Browser) -> None:
    """Nothing failed, nothing was asked of another machine, and every picture is there."""
    assert not browser.complaints()
    assert {urlsplit(url).netloc for url in browser.requests()} == {urlsplit(browser.address).netloc}
    assert not ask(browser, "emptyImages")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", LOOKED_AT)
def test_page_is_whole_and_legible(browser, page, width):
    browser.open(page, width)
    check_loaded(browser)
    for theme in THEMES:
        browser.wear(theme)
        assert not ask(browser, "stickingOut")
        for part in PARTS:
            assert browser.driver.find_element("css selector", part).text
            assert not ask(browser, "faint", part, CONTRAST)


def test_no_page_is_wider_than_a_telephone(browser):
    wrong = {}
    for page in sorted(set(PAGES) - set(LOOKED_AT)):
        browser.open(page, 400)
        check_loaded(browser)
        wrong[page] = ask(browser, "stickingOut")
    assert not {page: found[:3] for page, found in wrong.items() if found}


def test_what_is_wrong_is_noticed(browser):
    browser.open("start.html", 400)
    browser.run(
        """
        const article = document.querySelector(".bd-content article");
        const wide = `<div style="width: 900px; color: #888">wide and faint</div>`;
        article.insertAdjacentHTML("beforeend", wide);
        article.insertAdjacentHTML("beforeend", `<img src="no_such_picture.png" width="50" height="50">`);
        console.error("an error");
        await fetch("http://127.0.0.1:9/").catch(() => {});
        await article.lastChild.decode().catch(() => {});
        """
    )
    assert any("an error" in message for message in browser.complaints())
    assert "http://127.0.0.1:9/" in browser.requests()
    assert [src.rpartition("/")[2] for src in ask(browser, "emptyImages")] == ["no_such_picture.png"]
    assert any("wide and faint" in found for found in ask(browser, "stickingOut"))
    assert any("wide and faint" in found for found in ask(browser, "faint", ".bd-content", CONTRAST))


def links_shown(browser: Browser, part: str) -> set[str]:
    """Return where the links lead that are seen in a part of the page."""
    script = """
        const links = [...document.querySelector(arguments[0]).querySelectorAll("a")];
        return links.filter((link) => link.checkVisibility()).map((link) => link.getAttribute("href"));
        """
    return set(browser.run(script, part))


def test_the_header_leads_to_the_whole_site(browser):
    browser.open("index.html", 1280)
    for button in browser.driver.find_elements("css selector", ".bd-header .nav-item .dropdown-toggle"):
        if button.is_displayed():
            button.click()
    assert links_shown(browser, ".bd-header") >= set(TOP)


def test_the_menu_of_a_telephone_leads_to_the_whole_site(browser):
    browser.open("index.html", 400)
    assert not links_shown(browser, ".bd-header") & set(TOP)
    browser.find(".primary-toggle").click()
    browser.find("dialog[open] a.nav-link")
    assert links_shown(browser, "dialog[open]") >= set(TOP)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_reader_chooses_the_theme(browser, width):
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.open("index.html", width)
    if width == 400:
        browser.find(".primary-toggle").click()
    grounds = []
    for theme in ("light", "dark"):
        browser.find(".theme-switch-button").click()
        browser.find(f".theme-change-button[data-mode={theme}]").click()
        assert browser.theme() == theme
        grounds.append(browser.run(ground))
    assert grounds[0] != grounds[1]
    browser.driver.get(browser.address + "start.html")
    assert browser.theme() == "dark"
    assert browser.run(ground) == grounds[1]
