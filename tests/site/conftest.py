"""One browser for all tests of the built site; ``make docs`` builds it."""

from collections.abc import Iterator

import pytest

from browser import Browser, start_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with start_browser() as started:
        yield started
