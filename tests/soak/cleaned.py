"""The topics of a soak that are compacted and trimmed at full speed: writers, readers and checks."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client import BlockingClient, FetchLimits, NewTopic, TopicPartition, or_raise
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP

from .cleanups import Cleanups, count_files, log_bytes, occupied_bytes, wait_for_file
from .followers import Follower, start_followers
from .history import History, Reading
from .keyed import KeyedWriter
from .loads import PARTITIONS, Writer, wait_until
from .writers.keys import HEADER
from .writers.numbers import number_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from .broker import SoakBroker

SEGMENT_BYTES: Final = 1 << 20
"""The least that `segment.bytes` may be; `segment.ms` ends most segments before."""
RETENTION_BYTES: Final = 1 << 18
_BOTH_RETENTION_BYTES: Final = 1 << 13
"""Less than one record of each key."""
_SEGMENTS: Final = {"segment.bytes": str(SEGMENT_BYTES), "segment.ms": "300", "file.delete.delay.ms": "500"}
_COMPACT: Final = {"min.cleanable.dirty.ratio": "0", "delete.retention.ms": "500"}
COMPACTED, BOTH, TRIMMED = "compacted", "compacted-and-trimmed", "trimmed"
TOPICS: Final = {
    COMPACTED: {"cleanup.policy": "compact", **_SEGMENTS, **_COMPACT},
    BOTH: {
        "cleanup.policy": "compact,delete",
        "retention.bytes": str(_BOTH_RETENTION_BYTES),
        **_SEGMENTS,
        **_COMPACT,
    },
    TRIMMED: {"cleanup.policy": "delete", "retention.bytes": str(RETENTION_BYTES), **_SEGMENTS},
}
MOST_OCCUPIED_BYTES: Final = PARTITIONS * (8 << 20)
"""Of a topic, at any time: with future replicas, drafts, replaced segments, the backlog of the cleaner."""
QUIET_S: Final = 1.0
"""Retention looks at the topics three times meanwhile."""
_BATCH_BYTES: Final = 200
"""At most a batch's header, and lengths, offsets and times of a record that is alone in it."""
_SPARE_BYTES: Final = 1 << 16
"""Markers of transactions, and batches without records that keep the sequences of producers."""
_COMMITTED: Final = FetchLimits(read_committed=True)


@attrs.define
class Cleaned:
    """Everything about these topics; `most_occupied` has the most that each was seen to occupy, in bytes."""

    broker: SoakBroker
    folder: Path
    report: Callable[[str], None]
    most_occupied: Counter[str] = attrs.field(factory=Counter[str])
    writers: list[KeyedWriter] = attrs.field(factory=list[KeyedWriter])
    _trimmed: Writer = attrs.field(init=False)
    _followers: list[Follower] = attrs.field(factory=list[Follower])

    def start(self, running: ExitStack) -> None:
        """Create the topics, and start the writers and readers."""
        at = self.broker.bootstrap
        with BlockingClient(at) as client:
            or_raise(
                client.create_topics(
                    [NewTopic(name, PARTITIONS, config=config) for name, config in TOPICS.items()]
                )
            )
        self._trimmed = Writer("confluent_kafka", at, self.folder, TRIMMED)
        self._trimmed.start()
        running.callback(self._trimmed.kill)
        for name, topics in (("transactional", [COMPACTED]), ("keyed", [COMPACTED, BOTH])):
            writer = KeyedWriter(name, at, self.folder, topics, PARTITIONS)
            writer.start()
            running.callback(writer.kill)
            self.writers.append(writer)
        self._followers = start_followers(
            lambda is_endless: Follower(at, COMPACTED, PARTITIONS, self._histories, is_endless)
        )
        for follower in self._followers:
            running.callback(follower.stop)

    def wait_until_begun(self) -> None:
        """Wait until something was acknowledged to every writer.

        Raises:
            AssertionError: to one of them nothing was.
        """
        wait_until(
            lambda: (
                all(writer.history.acknowledged for writer in self.writers)
                and bool(self._trimmed.acknowledged)
            ),
            lambda: f"one of {[each.name for each in self.writers]} and {TRIMMED} does not write",
        )

    @property
    def _histories(self) -> dict[str, History]:
        return {writer.name: writer.history for writer in self.writers}

    def kill_writer(self, choose: random.Random) -> str:
        """Kill a writer, in the middle of a transaction perhaps; return what was done."""
        return choose.choice(self.writers).restart()

    def wait_for_replacement(self, mark: str, patience_s: float) -> bool:
        """Wait until segments are being replaced, and files end with this mark; return whether they did."""
        return wait_for_file(self.broker.directories, (COMPACTED, BOTH), mark, patience_s)

    def look(self) -> None:
        """Replace writers that gave up; check the readers and the disk.

        Raises:
            AssertionError: a reader has failed, or a topic occupies too much.
        """
        for writer in self.writers:
            writer.replace_ended()
        for follower in self._followers:
            follower.check()
        for topic in TOPICS:
            occupied = occupied_bytes(self.broker.directories, topic)
            assert occupied <= MOST_OCCUPIED_BYTES, f"{topic} occupies {occupied} bytes"
            self.most_occupied[topic] = max(self.most_occupied[topic], occupied)

    def finish(self) -> None:
        """Have the writers finish when what they write was cleaned: without them it never would be.

        Raises:
            AssertionError: a topic is never cleaned, or a writer ended with an error.
        """
        wait_until(
            lambda: not self._not_cleaned(), lambda: f"{'; '.join(self._not_cleaned())}: {self.cleanups()}"
        )
        self._trimmed.finish()
        for writer in self.writers:
            writer.finish()

    def check(self, client: BlockingClient) -> None:
        """Check the contents and sizes of the topics, and what the readers have read.

        Raises:
            AssertionError: something that must hold does not.
        """
        self.report(f"cleanups: {self.cleanups()}")
        self.report(f"most bytes that topics occupied: {dict(self.most_occupied)}")
        self._wait_for_transactions(client)
        self._wait_until_quiet()
        reading = self._check_keyed(client, COMPACTED, ("transactional", "keyed"))
        self._check_keyed(client, BOTH, ("keyed",))
        self._check_trimmed(client)
        self._check_compacted_size(reading)
        self._check_snapshots()
        for follower in self._followers:
            self._check_follower(follower, reading)
        groups, aborted = (
            sum(each.history.groups for each in self.writers),
            sum(each.history.aborted for each in self.writers),
        )
        self.report(
            f"keyed writers: {groups} groups acknowledged, {aborted} records aborted, "
            f"{sum(each.kills for each in self.writers)} kills, "
            f"{sum(each.replaced for each in self.writers)} gave up"
        )

    def cleanups(self) -> Cleanups:
        """Return the cleanups in the broker's log."""
        return Cleanups.of(self.broker.log_lines())

    def _not_cleaned(self) -> list[str]:
        """Return what was not done with the topics yet."""
        done = self.cleanups()
        compacted = {topic: done.removed_records[topic] for topic in (COMPACTED, BOTH)}
        trimmed = {topic: done.deleted_segments[topic] for topic in (TRIMMED, BOTH)}
        return [
            *(f"{topic} was not compacted" for topic, records in compacted.items() if not records),
            *(f"{topic} was not trimmed" for topic, segments in trimmed.items() if not segments),
        ]

    def _wait_for_transactions(self, client: BlockingClient) -> None:
        """Wait until readers of committed records can read to the end."""
        partitions = [TopicPartition(COMPACTED, each) for each in range(PARTITIONS)]

        def stable() -> bool:
            committed = or_raise(client.list_offsets(partitions, read_committed=True))
            return committed == or_raise(client.list_offsets(partitions))

        wait_until(stable, lambda: f"a transaction in {COMPACTED} never ends")

    def _wait_until_quiet(self) -> None:
        """Wait until nothing is compacted or deleted any more, so that what is left is stable."""
        before, since = self.cleanups(), time.monotonic()

        def is_quiet() -> bool:
            nonlocal before, since
            now = self.cleanups()
            if now != before:
                before, since = now, time.monotonic()
            return time.monotonic() - since >= QUIET_S

        wait_until(is_quiet, lambda: f"cleanups never end: {before}")

    def _check_keyed(self, client: BlockingClient, topic: str, writers: tuple[str, ...]) -> Reading:
        """Check what is left of a keyed topic; return it."""
        reading, starts = Reading(topic, self._histories), self._log_starts(client, topic)
        for partition, start in starts.items():
            for record in client.read(TopicPartition(topic, partition), start, limits=_COMMITTED):
                header = dict(record.headers)[HEADER]
                assert record.key is not None
                assert header is not None
                reading.take(partition, record.offset, record.key, record.value, header)
        trimmed = "retention.bytes" in TOPICS[topic]
        if not trimmed:
            assert not any(starts.values()), f"{topic} starts at {starts}"
        reading.check_aborted()
        expected = {name: self._histories[name].last_acknowledged() for name in writers}
        reading.check(expected, PARTITIONS, quiet=True, trimmed=trimmed)
        keys = sum(map(len, expected.values()))
        self.report(f"{topic}: {reading.records} records are left, {keys} keys have their last value")
        return reading

    def _check_trimmed(self, client: BlockingClient) -> None:
        """Check that what is left of each partition is its end, without gaps, and not too much."""
        found = 0
        for partition, start in self._log_starts(client, TRIMMED).items():
            records = list(client.read(TopicPartition(TRIMMED, partition), start))
            offsets = [record.offset for record in records]
            numbers = [number_of(record.value or b"") for record in records]
            last = self._trimmed.last_acknowledged[partition]
            assert offsets == list(range(start, start + len(records))), f"{TRIMMED}-{partition} has gaps"
            expected = range(partition + start * PARTITIONS, max(numbers, default=0) + 1, PARTITIONS)
            assert numbers == list(expected), f"{TRIMMED}-{partition} has other records than were sent"
            assert last in numbers, f"{TRIMMED}-{partition}: {last} was acknowledged and is lost"
            found += len(records)
        wait_until(
            lambda: self._largest(TRIMMED) <= RETENTION_BYTES + SEGMENT_BYTES,
            lambda: f"a partition of {TRIMMED} has {self._largest(TRIMMED)} bytes",
        )
        self.report(f"{TRIMMED}: {found} of {self._trimmed.acknowledged} records are left, the last ones")

    def _check_compacted_size(self, reading: Reading) -> None:
        """Check that partitions have a record of each key, and the active segment, which is not compacted."""
        live = max(reading.size_bytes.values()) + reading.records * _BATCH_BYTES
        bound = live + SEGMENT_BYTES + _SPARE_BYTES
        wait_until(
            lambda: self._largest(COMPACTED) <= bound,
            lambda: f"a partition of {COMPACTED} has {self._largest(COMPACTED)} bytes, more than {bound}",
        )

    def _check_snapshots(self) -> None:
        """Check that segments that are gone have left no producer snapshots, except the newest."""
        wait_until(
            lambda: not self._stray_snapshots(),
            lambda: f"producer snapshots of segments that are gone: {self._stray_snapshots()}",
        )

    def _stray_snapshots(self) -> dict[str, int]:
        """Return how many snapshots of a partition there are beyond one for each segment and the newest."""
        directories = self.broker.directories
        snapshots = {topic: count_files(directories, topic, ".snapshot") for topic in TOPICS}
        segments = {topic: count_files(directories, topic, ".log") for topic in TOPICS}
        return {
            f"{topic}-{partition}": stray
            for topic, counts in snapshots.items()
            for partition, count in counts.items()
            if (stray := count - segments[topic][partition] - 1) > 0
        }

    def _check_follower(self, follower: Follower, reading: Reading) -> None:
        if follower.is_endless:
            wait_until(
                lambda: follower.has_read(reading.numbers),
                lambda: f"a reader of {COMPACTED} has not read all that is left there",
            )
            follower.reading.check_aborted()
        else:
            wait_until(lambda: self._has_passed(follower), lambda: f"{COMPACTED} was never read to its end")
        kind = "endless reader" if follower.is_endless else f"{follower.passes} passes"
        self.report(f"{COMPACTED}: {kind}, {follower.records} records, without an error")

    def _has_passed(self, follower: Follower) -> bool:
        follower.check()
        return follower.passes > 0

    def _largest(self, topic: str) -> int:
        return max(log_bytes(self.broker.directories, topic).values())

    def _log_starts(self, client: BlockingClient, topic: str) -> dict[int, int]:
        partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        found = or_raise(client.list_offsets(partitions, EARLIEST_TIMESTAMP))
        return {partition.partition: offset.offset for partition, offset in found.items()}
