"""Partitions of a connector by the brokers' groups: it is one member, which divides its share among streams.

What the group takes or gives is applied at once, whatever the streams do: the consumer under the connector
returns nothing by itself, so no record of it is in the user's hands.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from tidelog.plugins.client.connector.streams import allot, surplus
from tidelog.plugins.client.operations.group_offsets import GroupOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.core import ConnectorCore
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.consumer.membership import AssignmentChange
    from tidelog.plugins.client.errors import ClientError

    Committed: TypeAlias = Callable[[ClientError | None], None]


class GroupCoordination:
    """Has a connector follow the group of its consumer."""

    def __init__(self, connector: ConnectorCore) -> None:
        self._connector = connector
        self._consumer = connector.consumer
        self._is_applying = False
        self._commits: deque[tuple[Mapping[TopicPartition, int], Committed]] = deque()

    def join(self, topics: Mapping[str, int], topic_filter: TopicFilter | None, streams: int) -> None:
        """Join the group; `Coordination.join`."""
        del streams  # They are this connector's own business.
        pattern = None if topic_filter is None else topic_filter.pattern
        self._consumer.group.subscribe(topics, pattern, None)

    def consumer_changed(self) -> None:
        """Apply what has changed about the assignment, one change after the other."""
        while not self._is_applying and (change := self._consumer.group.next_change()) is not None:
            self._is_applying = True
            self._apply(change)

    def commit(
        self, offsets: Mapping[TopicPartition, int], done: Callable[[ClientError | None], None]
    ) -> None:
        """Commit as the member that the connector is, one commit after the other: none is overtaken."""
        self._commits.append((offsets, done))
        if len(self._commits) == 1:
            self._commit_next()

    def leave(self, done: Callable[[], None]) -> None:
        """Commit; the consumer leaves the group when it is closed."""
        connector = self._connector
        offsets = connector.stop(self._consumer.assignment())
        if offsets and connector.settings.enable_auto_commit:
            self.commit(offsets, lambda _outcome: done())
        else:
            done()

    def _commit_next(self) -> None:
        offsets, done = self._commits[0]
        wanted = {partition: GroupOffset(offset) for partition, offset in offsets.items()}

        def ended(outcome: ClientError | None) -> None:
            self._commits.popleft()
            done(outcome)
            if self._commits:
                self._commit_next()

        connector = self._connector
        operation = self._consumer.commits.commit(wanted)
        connector.engine.spawn(operation, ended, timeout_s=connector.settings.api_timeout_s)

    def _apply(self, change: AssignmentChange) -> None:
        connector = self._connector
        if change.kind == "assigned":
            self._consumer.group.begin_change(change)
            connector.start(allot(change.partitions, connector.streams))
            for feed in surplus(connector.streams):
                connector.move(allot([feed.partition], connector.streams))
            self._finish(change)
            return
        is_kept = change.kind == "prepare"
        offsets = connector.consumed() if is_kept else connector.stop(change.partitions)
        if not offsets or change.kind == "lost" or not connector.settings.enable_auto_commit:
            self._finish(change)
            return

        def committed(outcome: ClientError | None) -> None:
            # Without it those that get the partitions read again what was not committed.
            if outcome is None:
                connector.committed(offsets)
            self._finish(change)
            self.consumer_changed()

        self.commit(offsets, committed)

    def _finish(self, change: AssignmentChange) -> None:
        self._is_applying = False
        self._consumer.group.finish_change(change)
