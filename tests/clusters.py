"""Dask clusters on this machine: a scheduler and workers in processes of their own, as users start them."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client

import walkernel as wk

SOURCE = str(Path(wk.__file__).parents[1])
"""Where workers find the library: the one that is tested."""
PROGRAM = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""Run a command, as ``python -m`` does, but not for longer than the process that holds its stdin."""
PLENTY = 60
"""Seconds within which anything that is awaited here happens, also on a machine that is busy."""


class Cluster:
    """A scheduler, and workers that are started and killed at will."""

    def __init__(self, folder):
        self.folder, self._processes, self._count = Path(folder), [], 0
        self.file = self.folder / "scheduler.json"
        self._run(
            *(
                "distributed.cli.dask_scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                0,
                "--dashboard-address",
                "127.0.0.1:0",
            ),
            *("--scheduler-file", self.file),
        )
        wait_until(self.file.exists)
        self.client = Client(scheduler_file=str(self.file), timeout=PLENTY, set_as_default=False)

    @property
    def address(self):
        return self.client.scheduler.address

    @property
    def workers(self):
        """Processes of workers, or of their nannies, that are not dead."""
        return [process for process in self._processes[1:] if process.poll() is None]

    def start_workers(self, count=1, *, nanny=False, n_threads=1):
        """Start workers, and wait until all that are alive are known."""
        for _ in range(count):
            self._run(
                *("distributed.cli.dask_worker", "--scheduler-file", self.file, "--nthreads", n_threads),
                *("--no-dashboard", "--nanny" if nanny else "--no-nanny", "--host", "127.0.0.1"),
                *("--local-directory", self.folder),
            )
        wait_until(lambda: self.n_workers() == len(self.workers))

    def n_workers(self):
        return len(self.client.nthreads())

    def keep_workers(self, count):
        """Have as many workers as are wanted, by starting or killing some."""
        for process in self.workers[count:]:
            end(process)
        self.start_workers(count - len(self.workers))

    def is_idle(self):
        """Tell whether neither this side nor the scheduler holds anything."""
        gc.collect()
        return not self.client.futures and not self.tasks()

    def tasks(self):
        """Return the names of what the scheduler holds."""
        return self.client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))

    def settles(self):
        """Wait until nothing is held anywhere."""
        wait_until(self.is_idle, 10)

    def close(self):
        with contextlib.suppress(Exception):
            self.client.close()
        for process in self._processes:
            end(process)

    def _run(self, module, *arguments):
        self._count += 1
        log = (self.folder / f"{module.rpartition('.')[2]}-{self._count}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, module, *map(str, arguments)],
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE},
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process


def end(process):
    """Kill a process and those that it started, a nanny's worker among them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.stdin.close()
    process.wait()


@contextlib.contextmanager
def cluster(folder, n_workers=0, **options):
    """Give a cluster, which is gone afterwards whatever happens."""
    own = Cluster(folder)
    try:
        if n_workers:
            own.start_workers(n_workers, **options)
        yield own
    finally:
        own.close()


def wait_until(condition, seconds=PLENTY):
    """Wait for a condition; it fails if that takes longer."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true within {seconds} s"
        time.sleep(0.05)
