"""Reading partitions to their ends: those that are named, or those that a group assigns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
from tidelog.plugins.client_commands.consume.read_range import NO_END, End, Start, ends_of, starts_of
from tidelog.plugins.client_commands.options import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tidelog.plugins.client.consumer.consumer import Consumer
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord

_POLL_S: Final = 0.2
"""How long to wait for records before the positions are compared with the ends: markers are no records."""


class RecordReader:
    """Records of the partitions that a consumer has, until each has reached its end.

    Attributes:
        ends: where reading ends of each partition, `NO_END` where it is followed
        offsets: the next one of each partition after what was processed, and not committed since
    """

    def __init__(self, consumer: Consumer, end: End, timeout_s: float) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._end = end
        self._timeout_s = timeout_s
        self._begins: dict[TopicPartition, int] = {}
        self._is_assigned = False

    def assign(self, partitions: Sequence[TopicPartition], start: Start) -> None:
        """Read these partitions."""
        self._begins = starts_of(self._consumer, partitions, start)
        self._consumer.assign(partitions)
        for partition, offset in self._begins.items():
            self._consumer.seek(partition, offset)
        self.begin(partitions)

    def begin(self, partitions: Sequence[TopicPartition]) -> None:
        """Look up the ends of partitions that the consumer has now."""
        self._is_assigned = True
        if partitions:
            self.ends.update(ends_of(self._consumer, partitions, self._end, time.time() * 1000))

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that another member of the group has."""
        for partition in partitions:
            self.ends.pop(partition, None)
            self.offsets.pop(partition, None)

    def chunks(self) -> Iterator[list[ConsumerRecord]]:
        """Iterate over records, some of one partition at a time.

        Raises:
            CommandFailed: no broker answers any more.
            ClientError: a partition cannot be read.
        """
        progress_at = time.monotonic()
        done = -1
        while not self._is_done():
            for batch in self._consumer.poll_batches(_POLL_S):
                end = self.ends.get(batch.partition, NO_END)
                records = batch.records()
                if batch.next_offset > end:
                    records = [each for each in records if each.offset < end]
                if records:
                    yield records
            self._look_up_time()
            if (reached := self.done()) != done or self._end.is_followed:
                done, progress_at = reached, time.monotonic()
            elif self._is_assigned and time.monotonic() > progress_at + self._timeout_s:
                raise CommandFailed(
                    f"No records came for {self._timeout_s:.3g} s though the end is not reached. --timeout "
                    "SECONDS waits for longer."
                )

    def processed(self, record: ConsumerRecord) -> None:
        """Note that a record and those before it are processed."""
        self.offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def total(self) -> int | None:
        """Return how many offsets there are to read, None if that is not known."""
        if not self._begins or NO_END in self.ends.values():
            return None
        return sum(max(0, self.ends[place] - begin) for place, begin in self._begins.items())

    def done(self) -> int:
        """Return how many of them were read."""
        consumer = self._consumer
        return sum(consumer.position(place) - self._begins.get(place, 0) for place in self.ends)

    def _is_done(self) -> bool:
        """Pause the partitions that are at their ends; return whether all are."""
        if not self._is_assigned:
            return False
        paused = self._consumer.paused()
        left = False
        for place, end in self.ends.items():
            if place in paused:
                continue
            if end != NO_END and self._consumer.position(place) >= end:
                self._consumer.pause(place)
            else:
                left = True
        return not left

    def _look_up_time(self) -> None:
        """Look up the offsets of `End.time_ms` once that time has come."""
        now_ms, until = time.time() * 1000, self._end.time_ms
        if until is not None and until <= now_ms and NO_END in self.ends.values():
            self.ends = ends_of(self._consumer, list(self.ends), self._end, now_ms)


class GroupReading(RebalanceListener):
    """Follows the assignment of a member, and commits what was processed."""

    def __init__(self, consumer: Consumer, reader: RecordReader) -> None:
        self._consumer = consumer
        self._reader = reader

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Read new partitions from where the group is."""
        self._reader.begin(sorted(partitions))

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit before others get them."""
        self.commit()
        self._reader.give_up(partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Commit nothing: others have them."""
        self._reader.give_up(partitions)

    def commit(self) -> None:
        """Commit the offsets of what was processed."""
        offsets = self._reader.offsets
        if offsets:
            self._consumer.commit(offsets)
            self._reader.offsets = {}
