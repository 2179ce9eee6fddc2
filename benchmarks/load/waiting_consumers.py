"""Many consumers that wait at the end of many partitions, each over a connection of its own."""

from __future__ import annotations

import selectors
import struct
from contextlib import ExitStack
from datetime import timedelta
from typing import Final

import attrs
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v11.response import FetchResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from benchmarks.procfs import Usage, as_usage

from .files import allow_files
from .meter import Meter
from .raw_connection import RawConnection, encode_frame

_SPARE_FILES: Final = 100
_PARTITION_MAX_BYTES: Final = 1 << 20
_WITHOUT_SESSION: Final = -1
# Of an answer, behind its length: correlation id, throttle time, error code, session id.
_ANSWER: Final = struct.Struct(">iihi")
_ID_AND_EPOCH: Final = struct.Struct(">ii")
_SOME_ID_AND_EPOCH: Final = (0x1122_3344, 0x5566_7788)


@attrs.frozen
class WaitingConsumersSpec:
    """`consumers` that all wait at the empty `partitions` of `topic`, with fetch sessions or without."""

    bootstrap: str
    broker_pid: int
    topic: str
    consumers: int
    partitions: int
    max_wait_ms: int
    seconds: float
    sessions: bool


@attrs.frozen
class WaitingConsumersResult:
    """`answers` came while it was measured, none of them with records."""

    answers: int
    usage: Usage = attrs.field(converter=as_usage)


class _Consumer:
    """One consumer: it asks again as soon as it has its answer."""

    def __init__(self, connection: RawConnection, full: bytes | bytearray) -> None:
        self.connection = connection
        self._next = bytearray(full)
        self._epoch_at = 0
        self._session_id = self._epoch = 0

    def continue_session(self, session_id: int, incremental: bytes | bytearray) -> None:
        """Name no partitions from now on."""
        self._next = bytearray(incremental)
        self._session_id = session_id
        self._epoch_at = incremental.index(_ID_AND_EPOCH.pack(*_SOME_ID_AND_EPOCH))

    def ask(self) -> None:
        """Send the next request."""
        if self._epoch_at:
            self._epoch += 1
            _ID_AND_EPOCH.pack_into(self._next, self._epoch_at, self._session_id, self._epoch)
        self.connection.send(self._next)

    def take_answer(self) -> None:
        """Receive the answer, which has come. Raises RuntimeError for an error code."""
        answer = self.connection.receive(self.connection.receive_size())
        _, _, error_code, session_id = _ANSWER.unpack_from(answer)
        if error_code or session_id != self._session_id:
            raise RuntimeError(f"a consumer was answered error {error_code} in session {session_id}")


def waiting_consumers(spec: WaitingConsumersSpec) -> WaitingConsumersResult:
    """Connect all, and measure when each has had its first answer after a wait."""
    allow_files(spec.consumers + _SPARE_FILES)
    with ExitStack() as connections, selectors.DefaultSelector() as selector:
        for _ in range(spec.consumers):
            consumer = _consumer(connections.enter_context(RawConnection(spec.bootstrap)), spec)
            selector.register(consumer.connection, selectors.EVENT_READ, consumer)
            consumer.ask()
        # A broker that is busy with them answers fewer, each of which has cost as much.
        _run(selector, Meter(spec.broker_pid), spec.max_wait_ms / 1000, spec.consumers)
        meter = Meter(spec.broker_pid)
        answers = _run(selector, meter, spec.seconds, spec.consumers)
        return WaitingConsumersResult(answers, meter.read())


def _run(selector: selectors.BaseSelector, meter: Meter, seconds: float, least_answers: int) -> int:
    answers = 0
    while meter.elapsed_s < seconds or answers < least_answers:
        for key, _ in selector.select(0.1):
            key.data.take_answer()
            key.data.ask()
            answers += 1
    return answers


def _consumer(connection: RawConnection, spec: WaitingConsumersSpec) -> _Consumer:
    """A consumer that has its session, if it shall have one."""
    if not spec.sessions:
        return _Consumer(connection, encode_frame(_request(spec, spec.max_wait_ms, 0, _WITHOUT_SESSION)))
    first = _request(spec, 0, 0, 0)
    answer: FetchResponse = connection.call(first, FetchResponse)
    if not answer.session_id:
        raise RuntimeError("the broker opened no fetch session")
    incremental = attrs.evolve(spec, partitions=0)
    consumer = _Consumer(connection, b"")
    frame = encode_frame(_request(incremental, spec.max_wait_ms, *_SOME_ID_AND_EPOCH))
    consumer.continue_session(answer.session_id, frame)
    return consumer


def _request(spec: WaitingConsumersSpec, max_wait_ms: int, session_id: int, epoch: int) -> FetchRequest:
    partitions = tuple(
        FetchPartition(
            partition=i32(index), fetch_offset=i64(0), partition_max_bytes=i32(_PARTITION_MAX_BYTES)
        )
        for index in range(spec.partitions)
    )
    topics = (FetchTopic(topic=TopicName(spec.topic), partitions=partitions),) if partitions else ()
    return FetchRequest(
        max_wait=i32Timedelta.parse(timedelta(milliseconds=max_wait_ms)),
        min_bytes=i32(1),
        session_id=i32(session_id),
        session_epoch=i32(epoch),
        topics=topics,
        forgotten_topics_data=(),
    )
