"""Commits of a consumer: those that the user calls for, and those that it makes by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.consumer.offset_queries import as_offsets
from tidelog.plugins.client.operations.group_offsets import commit_offsets
from tidelog.plugins.client.operations.sending import or_raise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.assigned_partitions import AssignedPartitions
    from tidelog.plugins.client.consumer.buffered_records import BufferedRecords
    from tidelog.plugins.client.consumer.classic_membership import AssignmentChange
    from tidelog.plugins.client.consumer.group_subscription import GroupSubscription
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata, GroupOffset
    from tidelog.plugins.client.steps import Steps


class OffsetCommits:
    """Commits positions.

    Attributes:
        failure: of a commit that the user did not call for, which `poll` raises; None without one
    """

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        positions: AssignedPartitions,
        group: GroupSubscription,
        records: BufferedRecords,
        lock: AbstractContextManager[Any],
        wake: Callable[[], None],
    ) -> None:
        """Set `wake`, which is called when `poll` has something to raise."""
        self.failure: ClientError | None = None
        self._engine = engine
        self._settings = settings
        self._positions = positions
        self._group = group
        self._records = records
        self._lock = lock
        self._wake = wake
        self._committed_at = engine.clock()
        self._is_committing = False

    def offsets_to_commit(
        self, offsets: Mapping[TopicPartition, int | GroupOffset] | None
    ) -> dict[TopicPartition, GroupOffset]:
        """Return offsets of next records as a commit has them, by default the position of each partition."""
        if offsets is not None:
            return as_offsets(offsets)
        with self._lock:
            self._records.mark_chunk()
            return self._positions.offsets(uncommitted_only=False)

    def commit(self, offsets: Mapping[TopicPartition, GroupOffset]) -> Steps[None]:
        """Return the operation that commits offsets.

        Raises:
            NotAssigned: the consumer has no group.
            ClientError: a partition's offset was not committed.
        """
        return self._commit(self._group.metadata(), offsets)

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, GroupOffset],
        on_commit: Callable[[Mapping[TopicPartition, GroupOffset], ClientError | None], object] | None,
    ) -> None:
        """Commit in the background; `on_commit` gets the offsets and the error, None without one."""

        def done(outcome: ClientError | None) -> None:
            if on_commit is not None:
                on_commit(offsets, outcome)

        operation = self.commit(offsets)
        with self._lock:
            self._engine.spawn(operation, done, timeout_s=self._settings.api_timeout_s)

    def commit_before(self, change: AssignmentChange) -> Steps[None] | None:
        """Return the operation that commits before partitions are given up, None if there is none."""
        if change.kind not in ("revoked", "prepare"):
            return None
        with self._lock:
            offsets = self.due()
        return self.commit(offsets) if offsets else None

    # Called with the lock.

    def due(self) -> dict[TopicPartition, GroupOffset]:
        """Return what has to be committed if that is automatic."""
        is_automatic = self._settings.enable_auto_commit and self._settings.group_id is not None
        return self._positions.offsets(uncommitted_only=True) if is_automatic else {}

    def auto_commit(self) -> None:
        """Commit what was returned before, if it is time to."""
        now = self._engine.clock()
        if self._is_committing or now < self._committed_at + self._settings.auto_commit_interval_ms / 1000:
            return
        self._committed_at = now
        offsets = self.due()
        if offsets:
            self._is_committing = True
            self._engine.spawn(
                self.commit(offsets), self._auto_committed, timeout_s=self._settings.api_timeout_s
            )

    def _auto_committed(self, outcome: ClientError | None) -> None:
        self._is_committing = False
        if outcome is not None and not outcome.retriable:
            self.failure = outcome
            self._wake()

    def _commit(self, group: GroupMetadata, offsets: Mapping[TopicPartition, GroupOffset]) -> Steps[None]:
        outcomes = yield from commit_offsets(self._engine.session, group, offsets)
        or_raise(outcomes)
        for partition, offset in offsets.items():
            state = self._positions.get(partition)
            if state is not None:
                state.committed = offset.offset
