"""The feed of one run of a sink: what has happened to its partitions since it last looked.

A partition with news is noted once, by a waiter of its log that removes itself, and noted again only after
the sink has taken the news. So an append costs nothing while a sink is behind, and what is noted takes no
more memory than there are partitions. How far the log has come is read when the sink takes the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.config.sinks import TOPICS, TOPICS_REGEX, SinkConfig
from tidelog.kernel.seams.events import Event, PartitionsOffline
from tidelog.kernel.seams.partition import AppendWaiter, Isolation
from tidelog.kernel.seams.sinks import Committed, PartitionAdded, PartitionRemoved, SinkChange
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.sinks.committed_log import PartitionLog
from tidelog.kernel.sinks.statistics import SinkState, SinkStatistics
from tidelog.kernel.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.topics import Topic, Topics


def receives_topic(config: SinkConfig, name: str) -> bool:
    """Return whether a sink with this configuration receives the topic `name`."""
    pattern = config[TOPICS_REGEX]
    if pattern is None:
        return name in config[TOPICS]
    return name not in INTERNAL_TOPICS and pattern.compiled.fullmatch(name)


class _Followed:
    """A partition of a feed; `reported` is the end of the last range, None before it was added."""

    __slots__ = ("log", "partition", "removal", "reported", "waiter")

    def __init__(
        self, partition: UnifiedLog, log: PartitionLog, committed: Callable[[_Followed], None]
    ) -> None:
        self.partition = partition
        self.log = log
        self.reported: int | None = None
        self.removal: PartitionRemoved | None = None
        self.waiter = AppendWaiter(0, partial(committed, self))


class Feed:
    """The changes of the partitions that `receives` selects by the names of their topics."""

    def __init__(
        self,
        receives: Callable[[str], bool],
        isolation: Isolation,
        make_log: Callable[[UnifiedLog], PartitionLog],
        statistics: SinkStatistics,
    ) -> None:
        self._statistics = statistics
        self._receives = receives
        self._isolation = isolation
        self._make_log = make_log
        self._followed: dict[TopicPartition, _Followed] = {}
        self._due: dict[_Followed, None] = {}
        self._wake = trio.Event()
        self._stopping = trio.Event()

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> Sequence[SinkChange]:
        self._statistics.state = SinkState.RUNNING
        while True:
            # A checkpoint in any case: a sink that is always behind must not hold the event loop.
            if self._due or self.stopping:
                await trio.lowlevel.checkpoint()
            else:
                self._wake = trio.Event()
                await self._wake.wait()
            changes = self._take()
            if changes:
                self._statistics.takes += 1
                return changes
            if self.stopping:
                raise StopAsyncIteration

    @property
    def stopping(self) -> bool:
        """Whether the broker stops."""
        return self._stopping.is_set()

    async def wait_stopping(self) -> None:
        """Wait until the broker stops."""
        await self._stopping.wait()

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The partitions that were reported to the sink."""
        return {name: each.log for name, each in self._followed.items() if each.reported is not None}

    @property
    def untaken(self) -> int:
        """How many partitions have changes that the sink has not taken."""
        return len(self._due)

    @property
    def lag(self) -> int:
        """How many offsets are committed that the sink has not reported as delivered."""
        lag = 0
        for each in self._followed.values():
            start, delivered = each.log.log_start_offset, each.log.delivered_offset
            lag += max(each.log.end_offset - (start if delivered is None else max(delivered, start)), 0)
        return lag

    def report(self, **details: str | int | float) -> None:
        """Replace what the sink says about itself."""
        self._statistics.details = details

    def follow(self, names: Collection[str], topics: Topics) -> None:
        """Report partitions of topics with these names that have come, and those that are gone."""
        changed = {name: topics.find(name) for name in names}
        there = {
            partition.log for topic in changed.values() if topic is not None for partition in topic.partitions
        }
        gone = (each.partition for name, each in self._followed.items() if name.topic in changed)
        self._leave([log for log in gone if log not in there], deleted=True)
        for topic in changed.values():
            if topic is not None:
                self.add_topic(topic)

    def on_event(self, event: Event) -> None:
        """Report partitions whose log directory failed."""
        if isinstance(event, PartitionsOffline):
            self._leave([partition.log for partition in event.partitions], deleted=False)

    def add_topic(self, topic: Topic) -> None:
        """Report the partitions of a topic that are new to the feed, if it is one for the sink."""
        if self._receives(topic.name):
            self._follow([partition.log for partition in topic.partitions])

    def stop(self) -> None:
        """End the iteration once the sink has taken what is left."""
        self._stopping.set()
        self._wake.set()

    def close(self) -> None:
        """Follow no partition any more."""
        for followed in self._followed.values():
            followed.partition.remove_waiter(followed.waiter)
        self._followed.clear()
        self._due.clear()

    def _follow(self, partitions: Collection[UnifiedLog]) -> None:
        for partition in partitions:
            if partition.offline is None and partition.topic_partition not in self._followed:
                followed = _Followed(partition, self._make_log(partition), self._committed)
                self._followed[partition.topic_partition] = followed
                self._due[followed] = None
        self._wake.set()

    def _leave(self, partitions: Collection[UnifiedLog], *, deleted: bool) -> None:
        for partition in partitions:
            followed = self._followed.pop(partition.topic_partition, None)
            if followed is None:
                continue
            partition.remove_waiter(followed.waiter)
            if followed.reported is None:
                # The sink has never known it.
                del self._due[followed]
            else:
                followed.removal = PartitionRemoved(followed.log, deleted)
                self._due[followed] = None
        self._wake.set()

    def _committed(self, followed: _Followed) -> None:
        # One note is enough until the sink takes it; further appends then find no waiter.
        followed.partition.remove_waiter(followed.waiter)
        self._due[followed] = None
        self._wake.set()

    def _take(self) -> list[SinkChange]:
        due, self._due = self._due, {}
        changes: list[SinkChange] = []
        for followed in due:
            if followed.removal is not None:
                changes.append(followed.removal)
                continue
            log = followed.log
            if followed.reported is None:
                changes.append(PartitionAdded(log))
                followed.reported = log.log_start_offset
            # No checkpoint lies between this and reading the end, so nothing is committed unnoticed.
            followed.partition.add_waiter(followed.waiter, self._isolation)
            first_offset, followed.reported = followed.reported, log.end_offset
            if first_offset < followed.reported:
                changes.append(Committed(log, first_offset, followed.reported))
        return changes
