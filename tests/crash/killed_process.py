"""A process that does a small workload and kills itself before one of its operations on files.

    python -m tests.crash.killed_process PLACE NUMBER...

For each number a child process works in `PLACE/NUMBER` until SIGKILL comes before its operation of that
number, or to the end when it has fewer. What the workload did until then is in `PLACE/NUMBER/history`.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import trio

from tests.crash.core import Core
from tests.crash.history import Expected, History, happening
from tests.crash.interposers import Unsynced
from tests.crash.workload import Workload
from tidelog.plugins.storage_file.testing.interposing import CHANGING, Interposer

P = ParamSpec("P")

STEPS = (
    "append_some",
    "run_transactions",
    "roll_before_any_job",
    "flush",
    "checkpoint",
    "delete_segments",
    "remove_deleted_files",
    "truncate_in_a_segment",
    "truncate_over_segments",
    "raise_log_start",
    "delete_whole_log",
    "recreate_topic",
    "stop_and_start",
    "append_some",
    "run_transactions",
)
COUNTED = CHANGING - {"fsync", "sync_data"}
"""What a killed process leaves is the same before a sync and after it."""


class SuddenDeath(Interposer):
    """Sends SIGKILL to its own process before an operation."""

    def __init__(self, before_operation: int) -> None:
        super().__init__()
        self._left = before_operation

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Die or perform."""
        if name in COUNTED:
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
        return perform(*arguments)


class WrittenHistory(History):
    """Writes down each event when it happens, outside of what is tested."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: 0)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(
        self, event: Callable[Concatenate[Expected, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """See `History.note`."""
        os.write(self._fd, pickle.dumps(happening(event, args)))

    def begin(self, phase: str) -> None:
        """See `History.begin`."""
        os.write(self._fd, pickle.dumps(phase))


def read_history(path: Path) -> tuple[Expected, str]:
    """What has to be there after what is in the file, and the phase that was last begun."""
    expected, phase = Expected(), ""
    for event in _events(path):
        if isinstance(event, str):
            phase = event
        else:
            event(expected)
    return expected, phase


def _events(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)  # our own, from a moment ago


def work(place: Path, before_operation: int) -> None:
    """Do the workload below `place`, which is empty, until death comes."""
    core = Core(place)
    core.data.mkdir(parents=True)
    workload = Workload(core, WrittenHistory(place / "history"), random.Random(before_operation))
    with Unsynced().installed(), SuddenDeath(before_operation).installed():
        trio.run(partial(workload.run, STEPS))


def main(place: Path, numbers: list[int]) -> None:
    """Run a child process for each number; print the number and its exit status, as `waitpid` gives it."""
    for number in numbers:
        child = os.fork()
        if not child:
            work(place / str(number), number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(number, status, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(map(int, sys.argv[2:])))
