"""The broker of a soak: two log directories, a journal of what is durable, and every way to end it."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tests.full_disk import MARK_VARIABLE, FullDisk
from tests.peers import TidelogServer, free_port

from .journal import JOURNAL_VARIABLE, start_over, tear

if TYPE_CHECKING:
    import random

SETTINGS: Final = {
    # Acknowledged means durable, so that a power cut may take nothing that was acknowledged.
    "log.flush.interval.messages": "1",
    "log.segment.bytes": str(1 << 20),
    "log.segment.delete.delay.ms": "500",
    # Retention and compaction at full speed, in lives of a second or two.
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "10000",
}
_BAD_LINE: Final = re.compile(r"Traceback \(most recent call last\)|\b(ERROR|CRITICAL)\b")
_FULL: Final = os.strerror(errno.ENOSPC)
_PROC: Final = Path("/proc")


@attrs.define
class SoakBroker:
    """A broker that keeps its address; `lives` counts its starts, `torn_bytes` what power cuts took."""

    folder: Path
    lives: int = 0
    torn_bytes: int = 0
    disk: FullDisk = attrs.field(init=False)
    _server: TidelogServer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.disk = FullDisk(self.folder / "disk")
        self.disk.mount()
        self._server = TidelogServer(
            self.folder,
            {**SETTINGS, "log.dirs": ",".join(map(str, self.directories))},
            requested_port=free_port(),
            launcher=(sys.executable, "-m", "tests.soak.journal"),
            environment={
                **os.environ,
                JOURNAL_VARIABLE: str(self._journal),
                MARK_VARIABLE: str(self.disk.mark),
            },
        )

    @property
    def directories(self) -> list[Path]:
        """Where partitions lie."""
        return [self.disk.folder / name for name in ("a", "b")]

    @property
    def _journal(self) -> Path:
        return self.folder / "journal"

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return self._server.bootstrap

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._server.start()
        self.lives += 1

    def stop(self) -> None:
        """Stop cleanly, within 20 seconds.

        Raises:
            AssertionError: it had to be killed, or left with an error.
        """
        status = self._server.stop()
        assert status == 0, self._server.process.failed("did not stop cleanly")

    def kill(self) -> None:
        """`kill -9`."""
        self._server.kill()

    def cut_power(self, choose: random.Random) -> None:
        """`kill -9`, and some of what was not synced is lost or zeros."""
        self.kill()
        self.torn_bytes += tear(self.directories, self._journal, choose)
        start_over(self.directories, self._journal)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after that time."""
        self._server.process.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._server.process.signal(signal.SIGCONT)

    @property
    def open_files(self) -> int:
        """Descriptors that the process has open."""
        return len(list((_PROC / str(self._server.pid) / "fd").iterdir()))

    @property
    def resident_mb(self) -> float:
        """Resident memory, in MB."""
        status = (_PROC / str(self._server.pid) / "status").read_text(encoding="ascii")
        (kilobytes,) = re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        return int(kilobytes) / 1024

    def bad_lines(self) -> list[str]:
        """Return the lines of the broker's log that tell of an error other than a full disk."""
        return [line for line in self.log_lines() if _BAD_LINE.search(line) and _FULL not in line]

    def log_lines(self) -> list[str]:
        """Return the lines of the broker's log, of all its lives."""
        return (self.folder / "tidelog.log").read_text(encoding="utf-8", errors="replace").splitlines()
