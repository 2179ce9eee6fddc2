"""A compacted topic that both brokers write, compact, and find in the middle of a compaction."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from tests.deadlines import wait_until
from tests.peers import KafkaServer
from tests.plugins.cleaner.histories import COMPACTED, HOUR_MS, Writer
from tests.plugins.cleaner.segment_files import compacted_until

from .directory import Server
from .look import View

TABLE = "table"
CONFIG = {**COMPACTED, "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
KEYS = 12
MOST_INTERRUPTIONS = 10
AMID_S = 1.0
"""How long to wait for the middle of a compaction, once there is something to compact."""
HOURS_PER_TURN = 1000
KAFKAS_REPORT = re.compile(rf"cleaned log {TABLE}-0 \(dirty section = \[(\d+), \d+\]\)")

Pair = tuple[bytes, bytes | None]
"""A key and its value, None for a tombstone. No value is written twice."""


class Table:
    """The topic, in the log directories `roots`, and what its readers have to find there.

    `newest` is the value of each key. `interrupted` counts the kills in the middle of a compaction.
    """

    def __init__(self, bootstrap: str, roots: Sequence[Path]) -> None:
        self.newest: dict[bytes, bytes] = {}
        self.interrupted = 0
        self._bootstrap = bootstrap
        self._roots = roots
        self._known: Mapping[int, Pair] = {}
        self._committed: set[Pair] = set()
        self._aborted: set[Pair] = set()
        # The markers of transactions get the broker's own time, which must not begin a segment.
        self._began_ms = time.time_ns() // 1_000_000 + HOUR_MS
        self._turn = 0
        self._compacted_until = 0
        self._reports = 0
        self._left: Mapping[str, int] | None = None

    # --- writing

    def write(self, turn: int) -> None:
        """Write updates, tombstones, and transactions that are committed and aborted, each to a segment."""
        self._turn = turn
        writer = self._writer(turn)
        for number in range(4):
            writer.batch(self._updates(f"plain-{number}", range(number, KEYS, 3)))
        writer.transaction("one", self._updates("committed", (turn % KEYS, 1, 2)))
        writer.transaction("two", self._updates("aborted", (0, 3, 4), committed=False), commit=False)
        writer.batch(self._tombstones(7 + turn % 3, 10))
        writer.batch(self._updates("last", (11,)))

    def _writer(self, turn: float) -> Writer:
        """Return one whose records are younger than all before, so that they get segments of their own."""
        began_ms = self._began_ms + int(turn * HOURS_PER_TURN) * HOUR_MS
        return Writer(self._bootstrap, TABLE, began_ms)

    def _updates(self, name: str, keys: Iterable[int], *, committed: bool = True) -> str:
        values = {f"k{key}": f"{name}-of-turn-{self._turn}" for key in keys}
        for key, value in values.items():
            pair = key.encode(), value.encode()
            (self._committed if committed else self._aborted).add(pair)
            if committed:
                self.newest[pair[0]] = pair[1]
        return " ".join(f"{key}={value}" for key, value in values.items())

    def _tombstones(self, *keys: int) -> str:
        for key in keys:
            self.newest.pop(b"k%d" % key, None)
            self._committed.add((b"k%d" % key, None))
        return " ".join(f"k{key}" for key in keys)

    # --- compaction

    def wait_compacted(self) -> None:
        """Wait until all but the active segment is compacted."""
        wait_until(lambda: self._checkpointed() == self._active(), f"compaction of {TABLE}")
        self._left = self._files()

    def interrupt(self, server: Server) -> None:
        """Have the broker compact, and kill it in the middle of that."""
        self._left = None
        writer = self._writer(self._turn + 0.5)
        for number in range(MOST_INTERRUPTIONS):
            writer.batch(self._updates(f"interrupted-{number}", range(number % 3, KEYS, 3)))
            if self._comes_amid():
                server.kill()
                self.interrupted += 1
                return
        server.kill()

    def _comes_amid(self) -> bool:
        """Wait for the middle of a compaction; busy, since it lasts for milliseconds."""
        deadline = time.monotonic() + AMID_S
        while time.monotonic() < deadline:
            if any(path.name.endswith((".log.cleaned", ".log.swap")) for path in self._folder.iterdir()):
                return True
        return False

    @property
    def _root(self) -> Path:
        return next(root for root in self._roots if (root / f"{TABLE}-0").exists())

    @property
    def _folder(self) -> Path:
        return self._root / f"{TABLE}-0"

    def _active(self) -> int:
        return max(int(path.stem) for path in self._folder.glob("*.log"))

    def _files(self) -> Mapping[str, int]:
        """Return the name of each segment with its inode, which another compaction would change."""
        return {path.name: path.stat().st_ino for path in self._folder.glob("*.log")}

    def _checkpointed(self) -> int:
        return max(compacted_until(self._root, TABLE), 0)

    # --- checks

    def check(self, view: View) -> None:
        """Compare what readers find with what was written, and with what they found before.

        Raises:
            AssertionError: the message says what differs.
        """
        partition = view.partitions[TABLE, 0]
        committed, every = _by_offset(partition.committed), _by_offset(partition.records)
        table = {key: value for key, value in dict(committed.values()).items() if value is not None}
        assert table == self.newest, f"{TABLE}: {sorted(set(table.items()) ^ set(self.newest.items()))}"
        assert self._committed.issuperset(committed.values())
        assert (self._committed | self._aborted).issuperset(every.values())
        end = max(self._known, default=-1) + 1
        others = {offset for offset in every if offset < end and every[offset] != self._known.get(offset)}
        assert not others, f"{TABLE}: not the records of before at {sorted(others)}"
        self._known = every

    def check_untouched(self) -> None:
        """Check, some seconds after a start, that what was compacted before is not compacted again.

        Raises:
            AssertionError: it was.
        """
        if self._left is not None:
            assert self._files() == self._left, f"{TABLE} was compacted again, with nothing to compact"

    def check_progress(self, server: Server) -> None:
        """Check that nothing was compacted again in the turn of `server`, which has ended.

        Only Kafka logs where a compaction begins.

        Raises:
            AssertionError: the checkpoint has fallen, or Kafka began below it.
        """
        until, before = self._checkpointed(), self._compacted_until
        assert until >= before, f"{TABLE} was compacted up to {before}, and then {until}"
        if isinstance(server, KafkaServer):
            reports = KAFKAS_REPORT.findall(server.process.log_path.read_text())
            begun = [int(offset) for offset in reports[self._reports :]]
            assert begun, f"Kafka reports no compaction of {TABLE}"
            assert min(begun) >= before, f"{TABLE}: from {begun} on again, not from {before}"
            self._reports = len(reports)
        self._compacted_until = until


def _by_offset(records: Sequence[object]) -> Mapping[int, Pair]:
    typed = cast("Sequence[tuple[int, bytes, bytes | None, object]]", records)
    return {offset: (key, value) for offset, key, value, _ in typed}
