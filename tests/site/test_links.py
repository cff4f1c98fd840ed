"""Every link of the built site leads somewhere."""

from collections import Counter
from urllib.parse import urlsplit

import pytest

from links import SITE, Links, Page, check_links

HOSTS = 30  # a reader is sent to few other places


@pytest.fixture(scope="module")
def links() -> Links:
    return check_links()


def test_links_lead_to_files_and_anchors(links):
    assert not links.broken


def test_nothing_is_loaded_from_elsewhere(links):
    assert not links.foreign


def test_links_that_lead_elsewhere_are_sound_and_few(links):
    for address in links.outside:
        parts = urlsplit(address)
        assert parts.scheme == "https", address
        assert "." in parts.netloc.strip("."), address
        assert not set(address) & set(" <>\"'\\^`{|}"), address
        assert not address.endswith((".", ",", ";", ":")), address
    assert len({urlsplit(address).netloc for address in links.outside}) <= HOSTS


def test_names_on_a_page_are_unique():
    for path in SITE.glob("**/*.html"):
        twice = [name for name, count in Counter(Page(path).names).items() if count > 1]
        assert not twice, path.name


def test_a_broken_site_is_noticed(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="top">Top</h1><a href="#top">a</a><a href="#bottom">b</a><a href="other.html">c</a>'
        '<img src="https://example.org/picture.png"><a href="https://example.org">d</a>'
    )
    found = check_links(tmp_path)
    assert sorted(found.broken) == ["index.html: no anchor #bottom", "index.html: no file other.html"]
    assert found.foreign == ["index.html: https://example.org/picture.png"]
    assert set(found.outside) == {"https://example.org", "https://example.org/picture.png"}
