"""Topics with all that compaction has to tell apart, and how they are written."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.deadlines import DEADLINE_S, wait_until
from tests.plugins.metadata_kraft.hands import QUIET, Client

HOUR_MS = 3_600_000
LONG_MAX = str(2**63 - 1)
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "retention.ms": "-1",
    # Batches with timestamps that grow get a segment each.
    "segment.ms": "1",
    "message.timestamp.after.max.ms": LONG_MAX,
}
"""A log is compacted whenever some of it can be."""
CODECS = ("gzip", "snappy", "lz4", "zstd")


def producer(bootstrap: str, **settings: str | int | bool) -> Producer:
    """A producer that sends one batch for all that is produced until it is flushed."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 60_000,
            "batch.size": 900_000,
            "batch.num.messages": 100_000,
            **QUIET,
            **settings,
        }
    )


class Writer:
    """Writes to one topic. Each batch is an hour younger than the one before."""

    def __init__(self, bootstrap: str, topic: str, began_ms: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self._now_ms = began_ms
        self._transactional: dict[str, Producer] = {}
        self._plain: dict[str, Producer] = {}

    def batch(self, records: str, codec: str = "none", by: Producer | None = None) -> None:
        """Write a batch of `key=value`, `key` (a tombstone) and `=value` (without a key)."""
        pairs = [word.partition("=") for word in records.split()]
        self.pairs([(key or None, value if sign else None) for key, sign, value in pairs], codec, by)

    def pairs(
        self,
        pairs: list[tuple[str | None, str | bytes | None]],
        codec: str = "none",
        by: Producer | None = None,
    ) -> None:
        """Write a batch of keys and values."""
        if by is None:
            by = self._plain.get(codec)
            if by is None:
                by = self._plain[codec] = producer(self.bootstrap, **{"compression.type": codec})
        self._now_ms += HOUR_MS
        for key, value in pairs:
            by.produce(self.topic, value, key=key, partition=0, timestamp=self._now_ms)
        assert by.flush(DEADLINE_S) == 0

    def begin(self, name: str) -> Producer:
        """Begin a transaction of that producer."""
        known = self._transactional.get(name)
        if known is None:
            ids: dict[str, str | int] = {"transactional.id": f"{self.topic}-{name}"}
            known = producer(self.bootstrap, **ids, **{"transaction.timeout.ms": 900_000})
            self._transactional[name] = known
            known.init_transactions(DEADLINE_S)
        known.begin_transaction()
        return known

    def end(self, name: str, *, commit: bool = True) -> None:
        """End the transaction of that producer, and wait for the marker: that comes after the answer."""
        before = self._end()
        known = self._transactional[name]
        known.commit_transaction(DEADLINE_S) if commit else known.abort_transaction(DEADLINE_S)
        wait_until(lambda: self._end() > before, f"a marker in {self.topic}")

    def transaction(self, name: str, *contents: str, commit: bool = True) -> None:
        """Write batches of one transaction."""
        by = self.begin(name)
        for each in contents:
            self.batch(each, by=by)
        self.end(name, commit=commit)

    def _end(self) -> int:
        # For readers of committed records the end is where a transaction is open.
        settings = {"group.id": "none", "isolation.level": "read_uncommitted", **QUIET}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings})
        try:
            place = TopicPartition(self.topic, 0)
            return int(consumer.get_watermark_offsets(place, timeout=DEADLINE_S, cached=False)[1])
        finally:
            consumer.close()


@attrs.frozen
class History:
    """A topic: what is written at first, before the second compaction, and before the third.

    `config` is the topic's from the beginning on, `later` what is changed when the first part is written.
    """

    parts: tuple[Callable[[Writer], None], ...]
    config: Mapping[str, str] = attrs.field(factory=dict[str, str])
    later: Mapping[str, str] = attrs.field(factory=dict[str, str])


def _of(*batches: str, codec: str = "none") -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        for each in batches:
            writer.batch(each, codec)

    return write


def _apart(*batches: str) -> Callable[[Writer], None]:
    """So that each begins a segment even with the broker's time."""

    def write(writer: Writer) -> None:
        for each in batches:
            writer.batch(each)
            then_ns = time.time_ns()
            wait_until(lambda: time.time_ns() > then_ns + 5_000_000, "another time")  # noqa: B023 ends here

    return write


FILLER = _of("filler=1", "filler=2")
"""The first of these is compacted, the second one begins the active segment."""
MORE = (FILLER, FILLER)


def _idempotent(writer: Writer) -> None:
    by = producer(writer.bootstrap, **{"enable.idempotence": True})
    writer.batch("a=1 b=1 c=1", by=by)
    writer.batch("a=2 b=2", by=by)
    gone = producer(writer.bootstrap, **{"enable.idempotence": True})
    writer.batch("b=3 c=3", by=gone)
    writer.batch("a=4 b=4 c=4")
    FILLER(writer)


def _committed(writer: Writer) -> None:
    writer.transaction("one", "a=1 b=1", "c=1")
    writer.transaction("one", "a=2", "c=2")
    writer.transaction("two", "d=1 e=1")
    writer.batch("b=3 c=3 d e=2")
    FILLER(writer)


def _aborted(writer: Writer) -> None:
    writer.batch("a=1 b=1 c=1")
    writer.transaction("one", "a=2 b", "d=1", commit=False)
    writer.transaction("one", "b=3")
    writer.transaction("two", "c=4", commit=False)
    FILLER(writer)


def _aborted_again(writer: Writer) -> None:
    writer.transaction("one", "a=5", commit=False)
    writer.transaction("two", "c=5 e=5")
    FILLER(writer)


def _interleaved(writer: Writer) -> None:
    one, two = writer.begin("one"), writer.begin("two")
    writer.batch("a=1 b=1", by=one)
    writer.batch("a=2 c=2", by=two)
    writer.batch("c=3 d=3", by=one)
    writer.batch("x=1")
    writer.end("two", commit=False)
    two = writer.begin("two")
    writer.batch("a=4 x", by=two)
    writer.end("one")
    writer.batch("c=5", by=two)
    writer.end("two")
    FILLER(writer)


def _open(writer: Writer) -> None:
    writer.batch("a=1 b=1")
    writer.batch("a=2")
    writer.transaction("one", "b=2")
    writer.batch("a=3", by=writer.begin("open"))
    writer.batch("b=3")
    writer.batch("b=4")
    FILLER(writer)


def _coded(codec: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        writer.pairs([(f"k{number}", f"value {number} " * 5) for number in range(500)], codec)
        writer.pairs([(f"k{number}", f"newer {number} " * 5) for number in range(0, 500, 2)], codec)
        writer.pairs([(f"k{number}", None) for number in range(0, 500, 3)], codec)
        writer.pairs([("only", "1")] * 3, codec)
        FILLER(writer)

    return write


def _large(writer: Writer) -> None:
    """Write six segments of a MiB, most of which stays in a later one."""
    chance = random.Random(1)
    for number in range(60):
        writer.pairs([(f"k{(number + part * 7) % 45}", chance.randbytes(25_000)) for part in range(4)])
    FILLER(writer)


def _long(writer: Writer) -> None:
    """Write 40 segments of which more than half stays, with a codec that takes its time.

    Apache Kafka does not begin to keep to its limit of bytes per second before 0.3 s have passed.
    """
    chance = random.Random(2)
    for number in range(400):
        keys = (f"k{number}", f"k{number}-", "same", f"k{number % 50}")
        writer.pairs([(key, chance.randbytes(25_000)) for key in keys], "gzip")
    FILLER(writer)


def _small(writer: Writer) -> None:
    for number in range(30):
        writer.batch(f"k{number * 7 % 11}={number}" if number % 5 else f"k{number % 7}")
    FILLER(writer)


BY_SIZE = {"segment.bytes": "1048576", "segment.ms": "604800000000"}
LONG = History((_long,), BY_SIZE)
HISTORIES: dict[str, History] = {
    "updates": History((_of("a=1 b=1 c=1", "b=2", "a=2 c=2 d=1", "a=3", "z=1"), _of("a=4", "d=2"), FILLER)),
    "tombstones": History(
        (
            _of("a=1 b=1 c=1", "a", "b=2 c d", "b e=1", "e", "z=1"),
            _of("c=3 z=2", "f", "z=3"),
            _of("f=1 g", "z=4"),
        )
    ),
    "tombstones-stay": History((_of("a=1", "a", "b", "z=1"), *MORE), {"delete.retention.ms": "600000000"}),
    "keyless": History(
        (_of("a=1 =x", "=y =z", "=w b=1", "a=2", "z=1"), *MORE),
        {"cleanup.policy": "delete"},
        {"cleanup.policy": "compact"},
    ),
    "small": History((_small, *MORE), {"segment.ms": str(5 * HOUR_MS)}),
    "large": History((_large, *MORE), BY_SIZE),
    **{codec: History((_coded(codec), *MORE)) for codec in CODECS},
    "append-time": History(
        (_apart("a=1 b=1 c=1", "b=2 c", "a=2", "a=3", "z=1"), *[_apart("filler=1", "filler=2")] * 2),
        {"message.timestamp.type": "LogAppendTime"},
    ),
    "idempotent": History((_idempotent, *MORE)),
    "committed": History((_committed, lambda writer: writer.transaction("one", "f=1", "z=1"), FILLER)),
    "aborted": History((_aborted, _aborted_again, FILLER)),
    "interleaved": History((_interleaved, *MORE)),
    "open": History((_open, *MORE)),
    "clean": History((_of("a=1 b=1", "a=2", "b=2", "z=1"), _of("a=3", "z=2"), _of())),
}
"""Nothing is written to `clean` before the third compaction."""


class Histories:
    """Topics that are written in parts, with the same timestamps on every copy of a directory."""

    def __init__(self, histories: Mapping[str, History] = HISTORIES) -> None:
        self._histories = histories
        # The markers of transactions get the broker's own time, which must not begin a segment.
        self._began_ms = time.time_ns() // 1_000_000 + HOUR_MS

    def write(self, part: int, bootstrap: str) -> None:
        """Write a part, the first one to new topics."""
        client = Client(bootstrap)
        for topic, history in self._histories.items():
            if part == 0:
                client.create(topic, 1, {**COMPACTED, **history.config})
            history.parts[part](Writer(bootstrap, topic, self._began_ms + part * 1000 * HOUR_MS))
            if part == 0 and history.later:
                _alter(client, topic, history.later)


def _alter(client: Client, topic: str, changes: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in client.admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)
