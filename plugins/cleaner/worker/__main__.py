"""The worker process: does one job after the other, until the broker hangs up.

It talks through the socket whose descriptor is its first argument; the second one is the broker's process id.
It ends when the broker does: the system kills it (Linux), and it looks at the socket before it writes.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, cast

from tidelog.kernel.errors import BrokerError, CorruptBatch, InvalidRecord
from tidelog.kernel.seams.compression import register_codecs
from tidelog.plugins.cleaner.worker.descriptors import receive_descriptors
from tidelog.plugins.cleaner.worker.messages import (
    Failure,
    GroupBegun,
    GroupDraft,
    GroupWritten,
    JobFailed,
    Rate,
    RewriteJob,
    WorkerProgress,
)
from tidelog.plugins.cleaner.worker.rewriter import Rewriter
from tidelog.plugins.cleaner.worker.scheduling import run_in_background

REPORT_INTERVAL_S = 0.5
"""How often a worker that waits reports: the rate may have changed, or the log may be gone."""
PROGRESS_INTERVAL_S = 0.1
"""How often a worker that works reports: each message holds up the broker's clients."""

_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
"""A filter may make circles: without any collection they would stay for as long as the process."""


class ByteRate:
    """A limit of bytes per second, for one user; `clock()` gives seconds."""

    __slots__ = ("_at", "_clock", "_due_bytes", "bytes_per_second")

    def __init__(self, bytes_per_second: float, clock: Callable[[], float]) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._at = clock()
        # What was used and not yet waited for, at that time: a changed limit applies to it, too.
        self._due_bytes = 0.0

    def spend(self, size_bytes: int) -> float:
        """Note that so many bytes were used; return how many seconds to wait before the next ones."""
        now = self._clock()
        self._due_bytes = max(self._due_bytes - (now - self._at) * self.bytes_per_second, 0) + size_bytes
        self._at = now
        return self._due_bytes / self.bytes_per_second


class BrokerConnection:
    """`Broker` at the other end of a socket."""

    def __init__(
        self,
        connection: Connection[Any, Any],
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._rate = ByteRate(bytes_per_second, clock)
        self._read_bytes = self._written_bytes = 0
        self._report_at = clock() + PROGRESS_INTERVAL_S

    def begin(self, base_offsets: Sequence[int]) -> GroupDraft:
        """Return what to write a group of segments to."""
        self._connection.send(GroupBegun(base_offsets))
        draft = cast("GroupDraft", self._answer())
        if draft.open_files:
            draft.writer.adopt(receive_descriptors(self._connection, draft.open_files))
        return draft

    def check(self) -> None:
        """Look at what the broker has sent, if anything.

        Raises:
            EOFError, OSError: the broker is gone.
        """
        while self._connection.poll():
            self._take_rate(cast("Rate", self._connection.recv()))

    def replace(self, written: GroupWritten) -> None:
        """Have the segments of the group replaced, and wait for that."""
        self._report()
        self._connection.send(written)
        self._answer()

    def spent(self, read_bytes: int, written_bytes: int) -> None:
        """Report progress now and then, and wait as long as the limit of bytes per second demands."""
        self._read_bytes += read_bytes
        self._written_bytes += written_bytes
        if self._clock() >= self._report_at:
            self._report()
        left_s = self._rate.spend(read_bytes + written_bytes)
        while left_s > 0:
            time.sleep(min(left_s, REPORT_INTERVAL_S))
            if left_s > REPORT_INTERVAL_S:
                self._report()
            left_s = self._rate.spend(0)

    def _report(self) -> None:
        self._connection.send(WorkerProgress(self._read_bytes, self._written_bytes))
        self._read_bytes = self._written_bytes = 0
        self._report_at = self._clock() + PROGRESS_INTERVAL_S
        self.check()

    def _answer(self) -> object:
        while isinstance(message := self._connection.recv(), Rate):
            self._take_rate(message)
        return message

    def _take_rate(self, message: Rate) -> None:
        self._rate.bytes_per_second = message.bytes_per_second


def do_job(job: RewriteJob, connection: Connection[Any, Any]) -> object:
    """Do a job; return the message that ends it."""
    register_codecs(job.codecs)
    try:
        return Rewriter(job, BrokerConnection(connection, job.bytes_per_second)).run()
    except (EOFError, ConnectionError):
        raise
    except FileNotFoundError as error:
        return JobFailed(str(error), Failure.GONE)
    except (CorruptBatch, InvalidRecord) as error:
        return JobFailed(str(error), Failure.CORRUPT)
    except (BrokerError, OSError) as error:
        return JobFailed(str(error))
    except Exception as error:
        return JobFailed(f"{type(error).__name__}: {error}")


def end_with(broker_pid: int) -> None:
    """Have the system kill this process when the thread that started it ends, and so with the broker.

    Other systems than Linux cannot do that: there the process ends as soon as it looks at its socket.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        # It may have been killed before.
        if os.getppid() != broker_pid:
            sys.exit()


def main() -> None:
    """Do jobs until the broker hangs up."""
    end_with(int(sys.argv[2]))
    run_in_background()
    # A job makes many tuples, none of them in a circle, and looking for circles takes a tenth of the time.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    with Connection(int(sys.argv[1])) as connection:
        try:
            while True:
                try:
                    job = connection.recv()
                except (AttributeError, ImportError) as error:
                    connection.send(JobFailed(f"the filter cannot be loaded by name: {error}"))
                    continue
                if not isinstance(job, Rate):
                    connection.send(do_job(job, connection))
                # Its filter may have a lot of memory.
                del job
        except (EOFError, ConnectionError):
            return


if __name__ == "__main__":
    main()
