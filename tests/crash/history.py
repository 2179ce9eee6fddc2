"""What a workload did and was told, and what has to be there, or may be, after a crash at any moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

import attrs

from tidelog.kernel.records.batch import parse_header

P = ParamSpec("P")
LogKey = tuple[UUID, int]
"""A topic's id and a partition's number."""


@attrs.define
class ExpectedTopic:
    """A topic by its name; `settled` unless its creation or deletion is under way."""

    name: str
    topic_id: UUID
    partitions: int
    settled: bool = False


@attrs.define
class ExpectedLog:
    """A log: the batches in it, and how much of it nothing may take away.

    `batches` has what was handed over, acknowledged or not. `former` has what it was before each truncation:
    until the next flush a power cut may bring that back. All below `end` survives the process, all below
    `durable` survives the machine. `outstanding` are batches, as they were sent, whose answer is awaited.
    """

    batches: list[bytes] = attrs.field(factory=list[bytes])
    former: list[list[bytes]] = attrs.field(factory=list[list[bytes]])
    end: int = 0
    durable: int = 0
    start_least: int = 0
    start_most: int = 0
    outstanding: list[bytes] = attrs.field(factory=list[bytes])
    leader_epoch: int = 0
    marker_under_way: bool = False

    @property
    def timelines(self) -> list[list[bytes]]:
        """What the log may be a part of."""
        return [self.batches, *self.former]


@attrs.define
class Expected:
    """Everything that is known at one moment. Each method is something that happened."""

    topics: dict[str, ExpectedTopic] = attrs.field(factory=dict[str, ExpectedTopic])
    logs: dict[LogKey, ExpectedLog] = attrs.field(factory=dict[LogKey, ExpectedLog])
    deleted_names: set[str] = attrs.field(factory=set[str])
    producer_ids: set[int] = attrs.field(factory=set[int])

    def creating(self, name: str, partitions: int) -> None:
        """A topic is being created; its id is not known yet."""
        self.topics[name] = ExpectedTopic(name, UUID(int=0), partitions)

    def created(self, name: str, topic_id: UUID) -> None:
        """Its creation was acknowledged."""
        topic = self.topics[name]
        topic.topic_id, topic.settled = topic_id, True
        for number in range(topic.partitions):
            self.logs[topic_id, number] = ExpectedLog()

    def power_failed(self) -> None:
        """What was not durable may be gone, and nobody waits for an answer any more."""
        for log in self.logs.values():
            log.end = log.durable
            log.outstanding.clear()

    def survived(self, name: str, topic_id: UUID) -> None:
        """A start found a topic, be its creation or deletion acknowledged or not: it is shown from now on."""
        topic = self.topics[name]
        topic.topic_id, topic.settled = topic_id, True

    def recovered(self, log: LogKey, batches: list[bytes]) -> None:
        """A start found these batches and goes on behind them."""
        expected = self.logs.setdefault(log, ExpectedLog())
        expected.former.append(expected.batches)
        expected.batches = batches
        expected.end = parse_header(batches[-1]).next_offset if batches else expected.start_least

    def deleting(self, name: str) -> None:
        """A topic is being deleted."""
        self.topics[name].settled = False

    def deleted(self, name: str) -> None:
        """Its deletion was acknowledged."""
        del self.topics[name]
        self.deleted_names.add(name)

    def given(self, producer_id: int) -> None:
        """A producer id was given out."""
        self.producer_ids.add(producer_id)

    def led(self, log: LogKey, leader_epoch: int) -> None:
        """Clients may have seen the epoch that the partition is led in."""
        self.logs[log].leader_epoch = leader_epoch

    def appending(self, log: LogKey, stamped: bytes, sent: bytes) -> None:
        """A batch is being appended; it will look like `stamped`."""
        self.logs[log].batches.append(stamped)
        self.logs[log].outstanding.append(sent)

    def marking(self, log: LogKey) -> None:
        """A transaction is being ended; its marker is known only once it is there."""
        self.logs[log].marker_under_way = True

    def marked(self, log: LogKey, marker: bytes) -> None:
        """The log took the marker."""
        self.logs[log].batches.append(marker)
        self.logs[log].marker_under_way = False

    def appended(self, log: LogKey, end: int) -> None:
        """The log took it."""
        self.logs[log].end = end

    def acknowledged(self, log: LogKey) -> None:
        """Its producer was told."""
        self.logs[log].outstanding.clear()

    def flushed(self, log: LogKey, end: int) -> None:
        """All below `end` was reported as durable."""
        self.logs[log].durable = end
        self.logs[log].former.clear()

    def truncating(self, log: LogKey, offset: int) -> None:
        """The log is being cut: it ends below `offset` or not."""
        expected = self.logs[log]
        expected.former.append(list(expected.batches))
        expected.batches = [batch for batch in expected.batches if parse_header(batch).last_offset < offset]
        end = parse_header(expected.batches[-1]).next_offset if expected.batches else 0
        expected.end = min(expected.end, end)
        expected.durable = min(expected.durable, end)

    def raising_start(self, log: LogKey, offset: int) -> None:
        """The log is being cut from its beginning."""
        expected = self.logs[log]
        expected.start_most = max(expected.start_most, offset)

    def raised_start(self, log: LogKey, offset: int) -> None:
        """What lies below is gone for good."""
        self.logs[log].start_least = offset


@attrs.define
class History:
    """What happened after `before`, each with the number of file operations that were done by then."""

    operations_done: Callable[[], int]
    events: list[tuple[int, Callable[[Expected], None]]] = attrs.field(factory=list)
    marks: list[tuple[int, str]] = attrs.field(factory=list)
    before: Expected = attrs.field(factory=Expected)

    def note(
        self, event: Callable[Concatenate[Expected, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Something happened."""
        self.events.append((self.operations_done(), happening(event, args)))

    def begin(self, phase: str) -> None:
        """The next operations belong to `phase`."""
        self.marks.append((self.operations_done(), phase))

    def first_operation_of(self, phase: str) -> int:
        """How many operations were done when that phase first began."""
        return next(at for at, name in self.marks if name == phase)

    def phase_at(self, operations: int) -> str:
        """The phase that the last of so many operations belongs to."""
        return [name for at, name in self.marks if at < max(operations, 1)][-1]


def happening(event: Callable[..., None], arguments: tuple[Any, ...]) -> Callable[[Expected], None]:
    """An event that can be kept, also outside of this process, and be applied later."""
    return partial(_apply, event, arguments)


def _apply(event: Callable[..., None], arguments: tuple[Any, ...], expected: Expected) -> None:
    event(expected, *arguments)
