"""Dask clusters on this machine: a scheduler and workers in processes of their own, as users start them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client

PLENTY = 60
"""Seconds within which anything that is awaited here happens, also on a machine that is busy."""


class Cluster:
    """A scheduler, and workers that are started and killed at will."""

    def __init__(self, folder):
        self.folder, self._processes, self._count = Path(folder), [], 0
        self.file = self.folder / "scheduler.json"
        self.scheduler = self.start_scheduler()
        self.client = Client(scheduler_file=str(self.file), timeout=PLENTY)

    @property
    def address(self):
        return self.client.scheduler.address

    def start_scheduler(self, port=0):
        self.scheduler = self._run(
            *("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"),
            *("--scheduler-file", self.file),
        )
        wait_until(self.file.exists)
        return self.scheduler

    def start_workers(self, count=1, *, nanny=False, n_threads=1, cwd=None):
        """Start workers, wait for them, and return their processes."""
        before = self.n_workers()
        started = [
            self._run(
                *("distributed.cli.dask_worker", "--scheduler-file", self.file, "--nthreads", n_threads),
                *("--no-dashboard", "--nanny" if nanny else "--no-nanny", "--host", "127.0.0.1"),
                *("--local-directory", self.folder),
                cwd=cwd,
            )
            for _ in range(count)
        ]
        wait_until(lambda: self.n_workers() >= before + count)
        return started

    def n_workers(self):
        return len(self.client.nthreads())

    def keep_workers(self, count):
        """Have as many workers as are wanted: dead ones are forgotten, and missing ones are started."""
        if self.n_workers() < count:
            self.start_workers(count - self.n_workers())
        assert self.n_workers() == count

    def is_idle(self):
        """Tell whether neither this side nor the scheduler holds anything."""
        return not self.client.futures and not self.n_tasks()

    def n_tasks(self):
        return self.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    def settles(self):
        """Wait until nothing is held anywhere."""
        import gc

        gc.collect()
        wait_until(self.is_idle, 20)

    def close(self):
        with contextlib.suppress(Exception):
            self.client.close()
        for process in self._processes:
            end(process)

    def _run(self, module, *arguments, cwd=None):
        self._count += 1
        log = (self.folder / f"{module.rpartition('.')[2]}-{self._count}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                env=os.environ | {"OMP_NUM_THREADS": "1", "WALKERNEL_NUM_THREADS": "1"},
                cwd=cwd or self.folder,
                stdin=subprocess.DEVNULL,
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
