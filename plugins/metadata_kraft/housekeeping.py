"""Snapshots of the metadata log: when one is due, and which snapshots and segments are deleted.

Source: KIP-630; the rules and defaults of Apache Kafka's `metadata.log.*` and `metadata.max.retention.*`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.config import Config
from tidelog.kernel.errors import CorruptBatch
from tidelog.plugins.metadata_kraft import keys
from tidelog.plugins.metadata_kraft.image import image_records
from tidelog.plugins.metadata_kraft.log import MetadataLog
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.records.control import KRaftVersionRecord, SnapshotHeaderRecord
from tidelog.plugins.metadata_kraft.snapshots import SnapshotId, snapshot_time, write_snapshot

_log = logging.getLogger(__name__)

CLOSING_BYTES = 128 * 1024
"""Growth of the log in bytes after which a stop takes a snapshot, for a fast start."""
RETRY_AFTER_MS = 60_000
"""Pause after a snapshot that failed."""


class SnapshotLimits(NamedTuple):
    """Limits for taking snapshots and for retaining them and the log; -1 means no limit."""

    bytes_between: int
    interval_ms: int
    retention_bytes: int
    retention_ms: int

    @classmethod
    def of(cls, config: Config) -> SnapshotLimits:
        """Return the limits that the configuration sets."""
        return cls(
            config[keys.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            config[keys.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
            config[keys.METADATA_MAX_RETENTION_BYTES],
            config[keys.METADATA_MAX_RETENTION_MS],
        )


class Snapshots:
    """The snapshots of one log. All methods block; nothing is appended meanwhile."""

    def __init__(
        self,
        directory: Path,
        log: MetadataLog,
        replay: MetadataReplay,
        there: list[SnapshotId],
        limits: SnapshotLimits,
        now_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._log = log
        self._replay = replay
        self._there = there
        self._limits = limits
        self._now_ms = now_ms
        self._taken_ms = now_ms()
        self._not_before_ms = 0
        self.bytes_since = 0

    def is_due(self) -> bool:
        """Return whether the newest snapshot is old enough, or the log has grown enough since then."""
        if self._now_ms() < self._not_before_ms:
            return False
        if self.bytes_since >= self._limits.bytes_between:
            return True
        interval = self._limits.interval_ms
        return bool(interval and self.bytes_since) and self._now_ms() - self._taken_ms >= interval

    def take(self) -> None:
        """Write a snapshot up to the log's end, then apply the retention limits."""
        log, replay = self._log, self._replay
        # First: after a loss of power the log must not end below its newest snapshot.
        log.flush()
        snapshot = SnapshotId(log.end_offset, log.epoch)
        preamble: list[object] = [SnapshotHeaderRecord(last_contained_log_timestamp=log.last_timestamp)]
        if replay.kraft_version and replay.voters is not None:
            preamble += [KRaftVersionRecord(kraft_version=replay.kraft_version), replay.voters]
        path = self._directory / snapshot.file_name
        write_snapshot(path, log.epoch, preamble, image_records(replay.image), self._now_ms())
        if snapshot not in self._there:
            self._there.append(snapshot)
        self._taken_ms = self._now_ms()
        self.bytes_since = 0
        replay.image.removed_topics.clear()

    def take_and_clean(self) -> None:
        """Take a snapshot; an error is only logged, since the log has everything, and the next try waits."""
        try:
            self.take()
            self.clean()
        except OSError as error:
            self._not_before_ms = self._now_ms() + RETRY_AFTER_MS
            _log.warning("no snapshot of %s can be taken: %s", self._directory, error)

    def clean(self) -> None:
        """Remove the oldest snapshots, and the log before those that stay, beyond the retention limits."""
        # One always stays, since the log below it may be gone.
        while len(self._there) > 1 and self._has_outlived(self._there[0]):
            oldest, following = self._there[0], self._there[1]
            _log.info("removing the metadata snapshot %s", oldest.file_name)
            self._log.delete_before(following.offset)
            disk.remove_if_there(self._directory / oldest.file_name)
            del self._there[0]

    def _has_outlived(self, snapshot: SnapshotId) -> bool:
        limits = self._limits
        if 0 <= limits.retention_bytes < self._log.size_bytes + sum(map(self._size, self._there)):
            return True
        try:
            taken_ms = snapshot_time(self._directory / snapshot.file_name)
        except CorruptBatch:
            return True
        return 0 <= limits.retention_ms < self._now_ms() - taken_ms

    def _size(self, snapshot: SnapshotId) -> int:
        try:
            return disk.stat(self._directory / snapshot.file_name).st_size
        except FileNotFoundError:
            return 0
