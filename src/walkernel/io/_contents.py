"""What every reader returns, how it complains, and how it opens its file."""

from __future__ import annotations

import gzip
import importlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

from numpy.typing import NDArray

from walkernel._checks import shown
from walkernel.graph import Graph


class Contents(NamedTuple):
    """A graph and what its file tells of its nodes, by the names of ``Dataset``'s fields."""

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
    """Return the suffix in small letters, without a final ``.gz``."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, through gzip where its name ends in .gz; damage in the packing is said to be that."""
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
    """Import an optional package, or say how to get it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(
            f"{purpose} needs {package}. Install it with `pip install walkernel[{extra}]`."
        ) from None
