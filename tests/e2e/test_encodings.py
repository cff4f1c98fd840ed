"""The command line where the terminal lacks letters: nothing fails, and JSON stays JSON."""

import io
import json
import sys

import pytest

from commands import run
from walkernel.cli import main

FRIENDS = "Zoë,東京\n東京,Ægir\nÆgir,Zoë\n"
COMMANDS = {
    "table": "kernel friends.csv --row Zoë",
    "json": "kernel friends.csv --top Zoë --json",
    "csv": "regress friends.csv values.csv --model ridge",
    "message": "cluster friends.csv -k 2 --out Größe.csv --json",
    "help": "ode --help",
    "datasets": "datasets",
}


@pytest.fixture
def ascii_terminal(tmp_path, monkeypatch):
    """Call the command line as a process does, with streams that hold ASCII alone; return what they got."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "friends.csv").write_text(FRIENDS, encoding="utf-8")
    (tmp_path / "values.csv").write_text("Zoë,1\n東京,2\n", encoding="utf-8")

    def call(command):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
        monkeypatch.setattr("signal.signal", lambda *handler: None)
        monkeypatch.setattr(sys, "argv", ["walkernel", *command.split()])
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as ended:
            main()
        for stream in streams:
            stream.flush()
        out, error = (stream.buffer.getvalue().decode("ascii") for stream in streams)
        return ended.value.code or 0, out, error

    return call


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_results_are_printed(ascii_terminal, command):
    code, out, error = ascii_terminal(command)
    assert (code, "Error" in error) == (0, False)
    assert out
    if "--json" in command:
        assert "Zoë" in json.dumps(json.loads(out), ensure_ascii=False)
    elif "friends" in command:
        assert "Zo\\xeb" in out


def test_errors_are_printed(ascii_terminal):
    code, _, error = ascii_terminal("kernel friends.csv --row Zoe")
    assert code == 1
    assert "There is no node 'Zoe': the nodes are labels such as 'Zo\\xeb'" in error


def test_a_process_of_its_own(tmp_path):
    (tmp_path / "friends.csv").write_text(FRIENDS, encoding="utf-8")
    done = run("kernel", "friends.csv", "--row", "Zoë", cwd=tmp_path, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Zo\\xeb" in done.stdout
