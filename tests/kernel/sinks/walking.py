"""A random walk of topics, appends and a sink that takes changes now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.events import Event, PartitionsOpened, TopicDeleted
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.sinks import Committed, CommittedLog, PartitionAdded, PartitionRemoved, SinkChange
from tidelog.kernel.sinks.committed_log import PartitionLog
from tidelog.kernel.sinks.feed import Feed
from tidelog.kernel.sinks.statistics import SinkStatistics
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog


class Book:
    """What a sink knows: how far each log has come, by topic id and partition."""

    def __init__(self) -> None:
        self.ends: dict[tuple[UUID, int], int] = {}

    def take(self, changes: Sequence[SinkChange]) -> None:
        """Note changes; each has to follow what was noted before."""
        assert changes
        for change in changes:
            log = key_of(change.log)
            match change:
                case PartitionAdded():
                    assert log not in self.ends
                    self.ends[log] = change.log.log_start_offset
                case Committed(_, first, following):
                    assert self.ends[log] == first < following
                    self.ends[log] = following
                case PartitionRemoved():
                    del self.ends[log]


def key_of(log: CommittedLog | UnifiedLog) -> tuple[UUID, int]:
    """What tells a log from all others."""
    return log.topic_id, log.topic_partition.partition


async def walk(steps: Sequence[str]) -> None:
    """Take the steps on one topic, and then everything that the feed has left."""
    threads, statistics, book = trio.CapacityLimiter(1), SinkStatistics(), Book()
    async with running_broker() as broker:

        def log_of(partition: UnifiedLog) -> PartitionLog:
            return PartitionLog(partition, Isolation.READ_COMMITTED, threads, statistics)

        feed = Feed(lambda _: True, Isolation.READ_COMMITTED, log_of, statistics)

        def follow(event: Event) -> None:
            if isinstance(event, PartitionsOpened | TopicDeleted):
                feed.follow([event.topic.name], broker.topics)

        broker.events.subscribe(follow)
        for step in steps:
            topic = broker.topics.find("t")
            match step:
                case "create" if topic is None:
                    await broker.topics.create(TopicSpec("t", 1))
                case "delete" if topic is not None:
                    await broker.topics.delete("t")
                case "grow" if topic is not None:
                    await broker.topics.grow("t", len(topic.partitions) + 1)
                case "append" if topic is not None:
                    topic.partitions[-1].log.append_nowait(make_batch([b"x"] * 2))
                case "take" if feed.untaken:
                    book.take(await feed.__anext__())
                case _:
                    await trio.lowlevel.checkpoint()
            # A partition that is there, or the end of one that the sink knows.
            assert feed.untaken <= sum(1 for _ in broker.topics.partitions()) + len(book.ends)
        feed.stop()
        async for changes in feed:
            book.take(changes)
        assert book.ends == {key_of(each.log): each.log.high_watermark for each in broker.topics.partitions()}
        feed.close()
        assert not any(each.log.watermarks.committed_waiters for each in broker.topics.partitions())
