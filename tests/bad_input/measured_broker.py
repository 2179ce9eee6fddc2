"""tidelog with a gauge in its event loop: how long, in CPU time, it was held by one step of one task.

`python -m tests.bad_input.measured_broker GAUGE serve ...` runs the broker; GAUGE is a file of eight bytes
that has the longest step, in nanoseconds, since somebody wrote zeros into it.
"""

from __future__ import annotations

import mmap
import struct
import sys
from functools import partial
from pathlib import Path
from time import thread_time_ns

import trio
from trio.abc import Instrument

from tidelog.kernel.cli.main import main

_NS = struct.Struct("<q")


class LongestStep(Instrument):
    """Writes the longest step so far into a file."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_NS.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _NS.size)
        self._began = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has its turn."""
        self._began = thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """It had its turn."""
        held = thread_time_ns() - self._began
        if held > _NS.unpack_from(self._memory)[0]:
            _NS.pack_into(self._memory, 0, held)


class Gauge:
    """The other end of the file: reads and resets what the broker was held for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def reset(self) -> None:
        """Forget the steps so far."""
        with self._path.open("r+b") as file:
            file.write(bytes(_NS.size))

    def held_ms(self) -> float:
        """CPU milliseconds of the longest step since `reset`."""
        (held,) = _NS.unpack(self._path.read_bytes())
        return float(held) / 1e6


if __name__ == "__main__":
    gauge = LongestStep(Path(sys.argv.pop(1)))
    trio.run = partial(trio.run, instruments=[gauge])  # type: ignore[assignment]
    main()
