"""Commands in processes of their own, and quicker ones in this one."""

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from walkernel.cli import app

WALKERNEL = str(Path(sys.executable).with_name("walkernel"))
PLAIN = ("FORCE_COLOR", "NO_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "WALKERNEL_DEBUG", "TTY_COMPATIBLE")


def environment(**more):
    return {name: value for name, value in os.environ.items() if name not in PLAIN} | more


def run(*arguments, cwd, program=(WALKERNEL,), **more):
    """Run a process, as a user does."""
    return subprocess.run(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def call(*arguments):
    """Call a command in this process; nothing may come out but what the caller is told."""
    return CliRunner(env=dict.fromkeys(PLAIN)).invoke(app, list(map(str, arguments)))


def succeed(*arguments):
    """Call a command that must succeed, and return what it prints to stdout."""
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    return result.stdout
