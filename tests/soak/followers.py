"""Readers that stream topics in threads of their own while segments are replaced and deleted under them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .history import Promise, Reading
from .writers.keys import HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    from .history import History

_POLL_S: Final = 0.2
_LOST: Final = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._LOG_TRUNCATION,
)
"""What no reader of a log may meet whose start never moves; other errors are of a broker that is away."""


class Take(Protocol):
    """Is given every record; raises AssertionError for one that must not be there."""

    def __call__(
        self, partition: int, offset: int, key: bytes, value: bytes | None, header: bytes, /
    ) -> None: ...


def take_message(message: Message, take: Take) -> None:
    """Give a record of a keyed writer away.

    Raises:
        AssertionError: see `take`.
    """
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    key, value, headers = message.key(), message.value(), dict(message.headers() or ())
    header = headers[HEADER]
    assert isinstance(header, bytes)
    assert isinstance(key, bytes)
    assert value is None or isinstance(value, bytes)
    take(partition, offset, key, value, header)


@attrs.define
class Follower:
    """Reads a compacted topic from offset 0 on, pass after pass or one endless one; `passes` were complete.

    A pass of several ends at the ends of all partitions; then what was acknowledged before it must be there,
    and visible to readers of committed records.
    """

    bootstrap: str
    topic: str
    partitions: int
    histories: Mapping[str, History]
    is_endless: bool
    passes: int = 0
    records: int = 0
    failure: BaseException | None = None
    reading: Reading = attrs.field(init=False)
    _consumer: Consumer = attrs.field(init=False)
    _ended: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread = attrs.field(init=False)
    _at_end: set[int] = attrs.field(factory=set[int])
    _due: Promise = attrs.field(init=False)
    _next: Promise = attrs.field(init=False)

    def start(self) -> None:
        """Start reading."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "soak-followers",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 300,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )
        self._due, self._next = Promise({}, {}), Promise.of(self.histories)
        self._begin_pass()
        self._thread = threading.Thread(target=self._run, name=f"follower of {self.topic}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; no error when it has failed or stopped before."""
        self._ended.set()
        self._thread.join()

    def _begin_pass(self) -> None:
        self.reading = Reading(self.topic, self.histories)
        self._at_end.clear()
        if self._next.is_due(self.histories):
            self._due, self._next = self._next, Promise.of(self.histories)
        self._consumer.assign([TopicPartition(self.topic, each, 0) for each in range(self.partitions)])

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._take(self._consumer.poll(_POLL_S))
        except (AssertionError, KafkaException, ValueError, KeyError) as error:
            self.failure = error
        finally:
            self._consumer.close()

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        error = message.error()
        if error is None:
            take_message(message, self.reading.take)
            self.records += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._take_end(message.partition())
        else:
            assert error.code() not in _LOST, f"a reader of {self.topic} was given {error}"

    def _take_end(self, partition: int | None) -> None:
        if self.is_endless or partition is None:
            return
        self._at_end.add(partition)
        if len(self._at_end) == self.partitions:
            self.reading.check_aborted()
            self.reading.check(self._due.last, self.partitions, quiet=False)
            self.passes += 1
            self._begin_pass()

    def check(self) -> None:
        """Check that nothing has gone wrong so far.

        Raises:
            AssertionError: something has.
        """
        if self.failure is not None:
            raise AssertionError(f"a reader of {self.topic} failed: {self.failure!r}") from self.failure

    def has_read(self, numbers: Mapping[str, set[int]]) -> bool:
        """Return whether all these numbers were read; writer → numbers.

        Raises:
            AssertionError: the reader has failed.
        """
        self.check()
        return all(wanted <= self.reading.numbers.get(writer, set()) for writer, wanted in numbers.items())


def start_followers(make: Callable[[bool], Follower]) -> list[Follower]:
    """Start an endless follower and one of many passes."""
    followers = [make(True), make(False)]
    for follower in followers:
        follower.start()
    return followers
