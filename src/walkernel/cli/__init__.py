"""The command line: parsing and printing; the work is done by the library.

``_app`` has the application, which each of the other modules adds its commands to, and what happens when a
command fails or is interrupted. Heavy packages are imported inside the commands, so that ``--help`` is quick.
Results go to stdout, messages and progress to stderr, and progress only if that is a terminal.
"""

from walkernel.cli import _about, _demo, _estimates, _learning, _plot, _reproduce, _tasks  # noqa: F401 (commands)
from walkernel.cli._app import app, main

__all__ = ["app", "main"]
