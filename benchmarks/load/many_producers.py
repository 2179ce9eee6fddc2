"""Many producers with next to no client: each has a connection and replays a request of one record.

One thread serves all connections: what it adds to a latency is the same for every broker.
"""

from __future__ import annotations

import selectors
import time
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs

from benchmarks.procfs import Usage, as_usage
from benchmarks.sync_calls import SyncCalls

from .meter import Meter
from .raw_connection import RawConnection
from .raw_produce import Replay, prepare_replays

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE_BYTES = 4
_ONE_RECORD = 1
"""The size of a batch into which no second record fits."""
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER.
_NO_LEADER_YET = frozenset({3, 5, 6})
_LOOK_S = 0.05
_PATIENCE_S = 30.0


@attrs.frozen
class ManyProducersSpec:
    """`producers` with one request of one record in flight each, dealt out to `partitions` in turn.

    They send for `settle_s`, which counts for nothing, and then for `seconds`.
    """

    bootstrap: str
    broker_pid: int
    topic: str
    partitions: int
    producers: int
    value_bytes: int
    settle_s: float
    seconds: float


@attrs.frozen
class ManyProducersResult:
    """One latency for each record acknowledged; `sync_calls` of the broker meanwhile, None if unknown."""

    latencies_us: Sequence[float]
    sync_calls: int | None
    usage: Usage = attrs.field(converter=as_usage)


def many_producers(spec: ManyProducersSpec) -> ManyProducersResult:
    """Send until time is up, and return the latencies of what was acknowledged by then.

    Raises RuntimeError when the broker answers with an error code, OSError when it closes a connection.
    """
    with (
        ExitStack() as stack,
        selectors.DefaultSelector() as selector,
        SyncCalls(spec.broker_pid) as calls,
    ):
        for number in range(spec.producers):
            connection = stack.enter_context(RawConnection(spec.bootstrap))
            partition = number % spec.partitions
            (replay,) = prepare_replays(connection, spec.topic, [partition], spec.value_bytes, _ONE_RECORD)
            selector.register(connection, selectors.EVENT_READ, _Producer(connection, replay))
            _wait_led(connection, replay)
        for key in selector.get_map().values():
            key.data.send()
        _serve(selector, spec.settle_s)
        calls.begin()
        meter = Meter(spec.broker_pid)
        latencies_us = _serve(selector, spec.seconds)
        usage = meter.read()
        return ManyProducersResult(latencies_us, calls.end(), usage)


def _wait_led(connection: RawConnection, replay: Replay) -> None:
    """Have the first request acknowledged: the partitions of a new topic may have no leader yet.

    Raises TimeoutError when they get none.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        connection.send(replay.frame_after(0))
        answer = connection.receive(connection.receive_size())
        if replay.error_code(answer) not in _NO_LEADER_YET:
            return replay.check(answer)
        if time.monotonic() > deadline:
            raise TimeoutError("a partition has no leader")
        time.sleep(_LOOK_S)


def _serve(selector: selectors.BaseSelector, seconds: float) -> list[float]:
    """Answer each acknowledgement with the next request, and return the latencies in microseconds.

    At least one acknowledgement is waited for. Raises TimeoutError when none comes.
    """
    latencies_us: list[float] = []
    start = now = time.perf_counter()
    while now < start + seconds or not latencies_us:
        if now > start + seconds + _PATIENCE_S:
            raise TimeoutError("the broker acknowledges nothing")
        for key, _ in selector.select(_LOOK_S):
            latencies_us += key.data.serve()
        now = time.perf_counter()
    return latencies_us


class _Producer:
    """One idempotent producer on its own connection."""

    def __init__(self, connection: RawConnection, replay: Replay) -> None:
        self._connection = connection
        self._replay = replay
        # The first one is sent by `_wait_led`.
        self._sent = 1
        self._sent_at: deque[float] = deque()
        self._received = bytearray()

    def send(self) -> None:
        """Send the next request."""
        frame = self._replay.frame_after(self._sent)
        self._sent += 1
        self._sent_at.append(time.perf_counter())
        self._connection.send(frame)

    def serve(self) -> list[float]:
        """Receive the answers that have arrived, and send a request for each; return their latencies."""
        received = self._received
        received += self._connection.receive_some()
        now = time.perf_counter()
        latencies_us: list[float] = []
        while len(received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big")
            if len(received) < end:
                break
            self._replay.check(bytes(received[_SIZE_BYTES:end]))
            del received[:end]
            latencies_us.append((now - self._sent_at.popleft()) * 1e6)
            self.send()
        return latencies_us
