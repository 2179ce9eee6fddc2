"""Commits of a consumer: those that the user calls for, and those that it makes by itself.

What fails of the latter is logged, as by the Java client: the group continues where it was committed before.
A commit whose caller does not wait is not repeated, since it could come after a later one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.rate_limit import RateLimit
from tidelog.plugins.client.consumer import offset_queries
from tidelog.plugins.client.errors import ClientClosed, ClientError
from tidelog.plugins.client.operations.group_offsets import commit_offsets
from tidelog.plugins.client.operations.sending import or_raise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.assigned_partitions import AssignedPartitions
    from tidelog.plugins.client.consumer.buffered_records import BufferedRecords
    from tidelog.plugins.client.consumer.group_subscription import GroupSubscription
    from tidelog.plugins.client.consumer.interceptors import ConsumerInterceptors
    from tidelog.plugins.client.consumer.membership import AssignmentChange
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata, GroupOffset
    from tidelog.plugins.client.steps import Steps

_LOG: Final = logging.getLogger(__name__)
_LOG_INTERVAL_S: Final = 1.0


class OffsetCommits:
    """Commits positions."""

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        positions: AssignedPartitions,
        group: GroupSubscription,
        records: BufferedRecords,
        interceptors: ConsumerInterceptors,
        lock: AbstractContextManager[Any],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._positions = positions
        self._group = group
        self._records = records
        self._interceptors = interceptors
        self._lock = lock
        self._committed_at = engine.clock()
        self._is_committing = False
        self._log_limit = RateLimit(_LOG_INTERVAL_S)

    def offsets_to_commit(
        self, offsets: Mapping[TopicPartition, int | GroupOffset] | None
    ) -> dict[TopicPartition, GroupOffset]:
        """Return offsets of next records as a commit has them, by default the position of each partition."""
        if offsets is not None:
            return offset_queries.as_offsets(offsets)
        with self._lock:
            self._records.mark_chunk()
            return self._positions.offsets(uncommitted_only=False)

    def commit(self, offsets: Mapping[TopicPartition, GroupOffset]) -> Steps[None]:
        """Return the operation that commits offsets, for a caller who waits for it.

        Raises:
            NotAssigned: the consumer has no group.
            ClientError: a partition's offset was not committed.
        """
        # Here, since an operation raises nothing before it runs.
        self._group.metadata()
        return self._group.as_member(lambda member: self._commit(member, offsets, is_retried=True))

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Steps[dict[TopicPartition, GroupOffset | None]]:
        """Return the operation that reads what the group has committed, None for nothing.

        Raises:
            NotAssigned: the consumer has no group.
            ClientError: an offset cannot be read.
        """
        session, wanted = self._engine.session, list(partitions)
        self._group.metadata()
        return self._group.as_member(lambda member: offset_queries.committed(session, member, wanted))

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, GroupOffset],
        on_commit: Callable[[Mapping[TopicPartition, GroupOffset], ClientError | None], object] | None,
    ) -> None:
        """Commit in the background; `on_commit` gets the offsets and the error, None without one."""

        def done(outcome: ClientError | None) -> None:
            if on_commit is not None:
                on_commit(offsets, outcome)

        operation = self._commit(self._group.metadata(), offsets, is_retried=False)
        with self._lock:
            self._engine.spawn(operation, done, timeout_s=self._settings.api_timeout_s)

    def commit_before(self, change: AssignmentChange) -> Steps[None] | None:
        """Return the operation that commits before partitions are given up, None if there is none."""
        if change.kind not in ("revoked", "prepare"):
            return None
        with self._lock:
            return self.last_commit()

    # Called with the lock.

    def last_commit(self) -> Steps[None] | None:
        """Return the operation that commits, if that is automatic and anything is not committed."""
        offsets = self._due()
        return self._logged(self.commit(offsets)) if offsets else None

    def auto_commit(self) -> None:
        """Commit what was returned before, if it is time to."""
        now = self._engine.clock()
        if self._is_committing or now < self._committed_at + self._settings.auto_commit_interval_ms / 1000:
            return
        self._committed_at = now
        offsets = self._due()
        if offsets:
            self._is_committing = True
            commit = self._commit(self._group.metadata(), offsets, is_retried=False)
            timeout_s = self._settings.api_timeout_s
            self._engine.spawn(self._logged(commit), self._auto_committed, timeout_s=timeout_s)

    def _due(self) -> dict[TopicPartition, GroupOffset]:
        is_automatic = self._settings.enable_auto_commit and self._settings.group_id is not None
        return self._positions.offsets(uncommitted_only=True) if is_automatic else {}

    def _auto_committed(self, _outcome: ClientError | None) -> None:
        self._is_committing = False

    def _logged(self, commit: Steps[None]) -> Steps[None]:
        try:
            yield from commit
        except ClientClosed:
            return
        except ClientError as error:
            suppressed = self._log_limit.admit("commit")
            if suppressed is not None:
                more = f" ({suppressed} more since the last message)" if suppressed else ""
                _LOG.warning(
                    "an automatic commit of group %r failed: %s%s", self._settings.group_id, error, more
                )

    def _commit(
        self, member: GroupMetadata, offsets: Mapping[TopicPartition, GroupOffset], *, is_retried: bool
    ) -> Steps[None]:
        membership, session = self._group.membership, self._engine.session
        try:
            or_raise((yield from commit_offsets(session, member, offsets, is_retried=is_retried)))
        except ClientError as error:
            if membership is not None:
                membership.commit_failed(member, error)
            raise
        for partition, offset in offsets.items():
            state = self._positions.get(partition)
            if state is not None:
                state.committed = offset.offset
        self._interceptors.committed(offsets)
