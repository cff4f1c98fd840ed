"""Connections of commands to Dask clusters."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from distributed import Client

SCHEDULER_TIMEOUT = 8
"""Seconds within which a scheduler must answer."""


def _address(text: str | None) -> str | None:
    """Refuse an invalid address, on which Dask would hang for a long time."""
    if text is not None and not re.fullmatch(r"(\w+://)?[^\s/]+:\d+", text):
        raise typer.BadParameter(f"{text!r} is not an address such as tcp://127.0.0.1:8786.")
    return text


Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="ADDRESS", callback=_address, help="Walk on a Dask cluster: tcp://host:8786."
    ),
]


@contextmanager
def connect(address: str | None) -> Iterator[Client | None]:
    """Yield a client of the scheduler at an address, or None if no address is given."""
    if address is None:
        yield None
        return
    importlib.import_module("walkernel.engines._dask")  # its ImportError says what to install
    from distributed import KilledWorker

    from walkernel.engines import open_client

    with _without_dask_logs(), open_client(address, SCHEDULER_TIMEOUT) as client:
        try:
            yield client
        except KilledWorker as error:
            raise RuntimeError(f"Workers died repeatedly: {error}") from error


@contextmanager
def _without_dask_logs() -> Iterator[None]:
    """Suppress Dask's logs of lost workers and connections, which are recovered or become an error."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
