"""What goes wrong is said in one line, with an exit code, and leaves no files behind."""

import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import walkernel as wk
from commands import WALKERNEL, call, environment, run

FRIENDS = "Ada,Ben\nBen,Cem\nCem,Ada\n"
BAD_DATA = {
    "kernel missing.csv --row a": "There is no file missing.csv",
    "kernel karat --row a": "the unknown 'karat'",
    "kernel broken.csv --row a": "broken.csv, line 2",
    "kernel friends.csv --entry Ada Zoe": "There is no node 'Zoe': the nodes are labels such as 'Ada'",
    "kernel karate --top 34": "There is no node '34': the nodes are ids from 0 to 33",
    "kernel karate --row 0 --matrix adjacency --kernel matern(kappa=9)": "diverges",
    "features karate --out out --kernel f.json": "There is no file f.json",
    "features friends.csv --nodes nodes.txt --out out": "nodes.txt, line 2: There is no node 'Zoe'",
    "regress friends.csv one.csv --nodes blank.txt --out out": "blank.txt: expected nodes, found none",
    "features friends.csv --node Ada Ada --out out": "'Ada' more than once",
    "cluster friends.csv -k 4 --out out": "n_clusters must be at most",
    "ode friends.csv --source Zoe --times 1": "There is no node 'Zoe'",
    "ode friends.csv --source Ada --times 2 1": "increasing positive times",
    "kernel karate --row 0 --tolerance 2": "tolerance must be a finite number greater than 0 and less than 1",
    "nearest karate --node 34": "There is no node '34': the nodes are ids from 0 to 33",
    "nearest friends.csv --nodes nodes.txt --out out": "nodes.txt, line 2: There is no node 'Zoe'",
    "nearest karate --tolerance 2": "nearest: tolerance must be a finite number greater than 0 and less",
    "nearest karate --matrix adjacency --kernel matern(kappa=9) --out out": "diverges",
    "nearest signed.csv --kernel pagerank --out out": "graph must be without negative weights",
    "cluster karate -k 2 --matrix adjacency --method eigenvectors": "method must be 'polynomial' or 'walks'",
    "regress friends.csv stranger.csv --out out": "stranger.csv, line 3: There is no node 'Zoe'",
    "regress friends.csv word.csv --out out": "word.csv, line 2: expected a finite number",
    "regress friends.csv nan.csv --out out": "nan.csv, line 1: expected a finite number",
    "regress friends.csv first.csv --out out": "first.csv, line 1: expected a finite number",
    "regress friends.csv three.csv --out out": "three.csv, line 1: expected two columns",
    "regress friends.csv empty.csv --out out": "empty.csv: expected lines of node,value",
    "regress friends.csv binary.csv --out out": "binary.csv, line 1: expected a CSV file in UTF-8",
    "regress friends.csv twice.csv --model ridge --out out": "different targets for node 'Ada'",
}
BAD_USE = {
    "no command": "nonsense",
    "nothing asked for": "kernel karate",
    "half an entry": "kernel karate --entry 0 1 2",
    "unknown kernel": "kernel karate --row 0 --kernel gauss",
    "unknown parameter": "kernel karate --row 0 --kernel diffusion(width=2)",
    "parameter without a number": "kernel karate --row 0 --kernel diffusion(sigma=__import__('os'))",
    "parameter twice": "kernel karate --row 0 --kernel diffusion(sigma=1,sigma=2)",
    "parameter out of range": "kernel karate --row 0 --kernel diffusion(sigma=-1)",
    "unknown matrix": "kernel karate --row 0 --matrix identity",
    "no walks": "features karate --out out --walks 0",
    "no file to write": "features karate",
    "no folder to write to": "features karate --out nowhere/out.npz",
    "a folder to write to": "features karate --out .",
    "no times": "ode karate --source 0",
    "no heat": "ode karate --times 1",
    "directions of a data set": "kernel karate --row 0 --directed",
    "too few repeats": "demo --repeats 1",
    "no neighbours": "nearest karate -k 0",
    "damping out of range": "nearest karate --kernel pagerank(damping=1)",
    "no file for neighbours": "nearest karate --out nowhere/out.csv",
}
FILES = {
    "friends.csv": FRIENDS,
    "broken.csv": "0,1\n1\n",
    "stranger.csv": "node,value\nAda,1\nZoe,2\n",
    "word.csv": "Ada,1\nBen,high\n",
    "nan.csv": "Ada,nan\n",
    "first.csv": "Ada,l\nBen,2\n",
    "three.csv": "Ada,1,2\n",
    "empty.csv": "node,value\n\n",
    "binary.csv": b"\xff\xfe\x00",
    "twice.csv": "Ada,1\nAda,2\n",
    "nodes.txt": "Ada\nZoe\n",
    "blank.txt": "node\n\n",
    "one.csv": "Ada,1\n",
    "signed.csv": "Ada,Ben,1\nBen,Cem,-1\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


def nothing_new(folder):
    return {path.name for path in folder.iterdir()} == FILES.keys()


@pytest.mark.parametrize("command", BAD_DATA)
def test_bad_data(command, folder):
    result = call(*command.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert BAD_DATA[command] in result.stderr
    assert nothing_new(folder)


@pytest.mark.parametrize("case", BAD_USE)
def test_bad_use(case, folder):
    result = call(*BAD_USE[case].split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error" in result.stderr
    assert nothing_new(folder)


def test_processes_fail_without_tracebacks(folder):
    data = run("regress", "friends.csv", "stranger.csv", "--out", "out.csv", cwd=folder)
    assert (data.returncode, data.stdout, data.stderr.count("\n")) == (1, "", 1)
    assert data.stderr.startswith("Error: stranger.csv, line 3: There is no node 'Zoe'")
    use = run("kernel", "karate", cwd=folder)
    assert use.returncode == 2
    assert "Traceback" not in use.stderr
    assert nothing_new(folder)


def test_failures_of_the_code_say_that_they_are(monkeypatch):
    monkeypatch.setattr("walkernel.datasets.available", lambda: {}["a key"])
    result = call("datasets")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "KeyError" in result.stderr
    assert "--debug" in result.stderr


def test_warnings_are_messages(folder):
    (folder / "pairs.csv").write_text("0,1\n0,1\n1,0\n")
    result = run("kernel", "pairs.csv", "--directed", "--entry", 0, 1, cwd=folder)
    assert result.returncode == 0
    assert result.stderr.startswith("Warning: ")
    assert result.stderr.count("\n") == 1


def test_learning_without_torch_says_how_to_get_it(folder):
    code = (
        "import sys; sys.modules['torch'] = None; from walkernel.cli import main\n"
        "sys.argv = ['walkernel', 'learn', 'karate', '--out', 'f.json']; main()"
    )
    result = run("-c", code, cwd=folder, program=[sys.executable])
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "pip install walkernel[torch]" in result.stderr
    assert nothing_new(folder)


def test_a_reader_that_stops_is_no_failure_of_ours(folder):
    line = f"{WALKERNEL} datasets | true"
    result = subprocess.run(line, shell=True, env=environment(), capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr


def read_until(stream, text, seconds):
    """Read from a terminal until a text appears."""
    seen, end = b"", time.monotonic() + seconds
    while text not in seen:
        assert time.monotonic() < end, seen
        seen += os.read(stream, 4096)


def heed_interrupts():
    """Begin as in a terminal, also where these tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupt_ends_soon_and_leaves_the_old_file(tmp_path):
    """Progress is drawn on a terminal; when it is there, Ctrl-C is pressed."""
    edges = np.random.default_rng(0).integers(0, 50_000, (250_000, 2))
    wk.Graph.from_edges(edges, n_nodes=50_000).save(tmp_path / "large.npz")
    (tmp_path / "out.npz").write_text("what was there before")
    terminal, screen = pty.openpty()
    command = [WALKERNEL, "features", "large.npz", "--walks", "5000", "--out", "out.npz"]
    more = {"TERM": "xterm", "WALKERNEL_NUM_THREADS": "2"}
    streams = {"stdout": subprocess.PIPE, "stderr": screen, "preexec_fn": heed_interrupts}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(**more), **streams) as process:
        read_until(terminal, b"walks", 120)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(60) == 130
        assert time.monotonic() - began < 2
        assert process.stdout.read() == b""
    os.close(screen)
    os.close(terminal)
    assert {path.name for path in tmp_path.iterdir()} == {"large.npz", "out.npz"}
    assert (tmp_path / "out.npz").read_text() == "what was there before"
