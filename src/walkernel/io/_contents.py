"""The result of every reader, its errors, and the opening of files."""

from __future__ import annotations

import csv
import gzip
import importlib
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

from numpy.typing import NDArray

from walkernel._checks import shown
from walkernel.graph import Graph


class Contents(NamedTuple):
    """A graph and the data of its nodes, by the names of the fields of ``Dataset``."""

    graph: Graph
    data: dict[str, NDArray[Any]]


def malformed(
    path: Path, expected: str, found: object, line: int | None = None, remedy: str = ""
) -> NoReturn:
    """Raise a ValueError with the one message shape of files: file, line, expected, found, remedy."""
    where = f"{path}" if line is None else f"{path}, line {line}"
    got = found if isinstance(found, str) else shown(found)
    raise ValueError(f"{where}: expected {expected}, found {got}.{' ' + remedy if remedy else ''}")


def bare_suffix(path: Path) -> str:
    """Return the suffix in lower case, without a final ``.gz``."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix


def split_lines(
    path: Path, lines: Iterable[tuple[int, str]], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields, without quotes and surrounding spaces, of each numbered line.

    A line is a record: a quote that is not closed on its line is an error there, and swallows no other line.
    """
    number = n_lines = n_records = 0

    def texts() -> Iterator[str]:
        nonlocal number, n_lines
        for following, text in chain(lines, [(0, "")]):
            if n_records < n_lines:
                malformed(path, "a closing quote on the same line", 'a field that begins with "', number)
            number, n_lines = following, n_lines + 1
            yield text

    try:
        for fields in csv.reader(texts(), delimiter=delimiter, skipinitialspace=True):
            n_records += 1
            if number:
                yield number, [field.strip() for field in fields]
    except csv.Error as error:
        malformed(path, "fields of text", str(error), number)


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, through gzip if its name ends in .gz; report damaged compressed data as such."""
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as packed:
            yield cast(IO[bytes], packed)
    except EOFError:
        malformed(path, "a whole gzip file", "a truncated one", remedy="Get the file again.")
    except gzip.BadGzipFile as error:
        malformed(path, "a gzip file", f"something else ({error})")
    except zlib.error as error:
        malformed(path, "a whole gzip file", f"a damaged one ({error})", remedy="Get the file again.")


def optional(package: str, extra: str, purpose: str) -> Any:
    """Import an optional package, or raise an error that says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(
            f"{purpose} needs {package}. Install it with `pip install walkernel[{extra}]`."
        ) from None
