"""The application: its options, its exit codes, and what it prints where.

Exit codes are 0, 1 for data or work that fails (one line says why), 2 for a call that cannot be understood
and 130 for an interrupt.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from walkernel import __version__
from walkernel._door import door

NUMBER = re.compile(r"-[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)

console = Console(soft_wrap=True)
messages = Console(stderr=True, soft_wrap=True)


class Interrupted(BaseException):
    """Ctrl-C. It is not a KeyboardInterrupt, after which training would return its best result so far."""


class Commands(TyperGroup):
    """Commands whose failures are one line on stderr and exit code 1; ``--debug`` shows tracebacks."""

    @door
    def invoke(self, ctx: Any) -> Any:
        """Run a command; warnings of the library become messages, each of them once."""
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except Exception as error:
                usage_or_exit = hasattr(error, "exit_code")
                if usage_or_exit or isinstance(error, BrokenPipeError) or ctx.params.get("debug"):
                    raise
                say(f"Error: {_in_one_line(error)}")
                raise typer.Exit(1) from None


class VariadicCommand(TyperCommand):
    """A command whose repeatable options take several values at once: ``--times 0.5 1 2``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the name of the option before each of its values."""
        several = [option for option in self.params if getattr(option, "multiple", False)]
        repeatable = {name for option in several for name in option.opts}
        repeated: list[str] = []
        flag, expected = "", False
        for argument in args:
            if expected:
                expected = False
            elif argument in repeatable:
                flag, expected = argument, True
            elif argument.startswith("-") and not NUMBER.fullmatch(argument):
                flag = ""
            elif flag:
                repeated.append(flag)
            repeated.append(argument)
        return super().parse_args(ctx, repeated)


app = typer.Typer(cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"walkernel {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="WALKERNEL_DEBUG", help="Show the traceback of a failure.")
    ] = False,
) -> None:
    """Kernels on the nodes of graphs, from random walks.

    GRAPH comes first: a file (edge list, Matrix Market, GraphML, GML, .npz, mesh) or the name of a data set.

    KERNEL is diffusion(sigma=1), regularized-laplacian(d=1, sigma=1),
    matern(nu=1.5, kappa=1), p-step(p=2, alpha=2), inverse-cosine(scale=1),
    pagerank(damping=0.85), or the .json file of a learned f; parameters may be left out.
    """


def say(message: str) -> None:
    """Print a message to stderr."""
    messages.print(message, markup=False, highlight=False)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that moves a bar on stderr, if that is a terminal."""
    from rich.progress import Progress

    with Progress(console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _in_one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    expected = isinstance(error, (ValueError, TypeError, OSError, ImportError, RuntimeError)) and text
    if expected:
        return text
    if isinstance(error, MemoryError):
        return f"not enough memory. {text}".rstrip()
    return f"{type(error).__name__}: {text} (this should not happen; --debug shows the traceback)"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"Warning: {' '.join(str(message).split())}")


def _interrupt(*_: Any) -> NoReturn:
    raise Interrupted


def _print_anything() -> None:
    """Print characters that the terminal's encoding lacks as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not if another program has replaced it
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line."""
    _print_anything()
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # background jobs ignore it
            signal.signal(signal.SIGINT, _interrupt)
        app()
    except Interrupted:
        say("Interrupted.")
        sys.stdout.flush()
        os._exit(130)  # files are closed by now, and a regular exit could take seconds
