"""A reader who types a phrase finds the page."""

import re

import pytest
from selenium.webdriver.common.keys import Keys

from browser import Browser

FITTING = {
    "standard errors": r"error|estimate|how_it_works",
    "road": r"gaussian_process|regression|choosing|start|road",
    "NodeRidge": r"walkernel\.NodeRidge\.html",
}
FIRST = 5


def search(browser: Browser, phrase: str, width: int) -> list[str]:
    """Type a phrase in the field on the first page, and return the addresses of what is found, best first."""
    browser.open("index.html", width)
    browser.find(".search-button, .search-button__button").click()
    browser.find("input[type=search]").send_keys(phrase, Keys.ENTER)
    browser.wait(lambda driver: "search.html" in driver.current_url)
    told = "return document.querySelector('#search-results')?.innerText ?? ''"
    browser.wait(lambda _: re.search(r"finished|did not", browser.run(told)))
    found = "#search-results li > a"
    return browser.run(f"return [...document.querySelectorAll('{found}')].map((link) => link.href)")


@pytest.mark.parametrize("phrase", FITTING)
def test_a_phrase_finds_its_page(browser, phrase):
    found = search(browser, phrase, 1280)
    assert any(re.search(FITTING[phrase], address) for address in found[:FIRST]), found[:FIRST]
    assert not browser.complaints()


def test_search_works_on_a_telephone(browser):
    found = search(browser, "NodeRidge", 400)
    assert "walkernel.NodeRidge.html" in found[0]


def test_words_that_no_page_has_find_nothing(browser):
    assert search(browser, "zygomorphic", 1280) == []
