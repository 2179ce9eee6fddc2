"""How long a consumer waits until an offset is committed, one commit at a time, with next to no client."""

from __future__ import annotations

import gc
import time

import attrs

from benchmarks.procfs import Usage, as_usage

from .group_requests import await_coordinator, commit_frame
from .meter import Meter
from .raw_connection import RawConnection

_GROUP = "committing"
_UNMEASURED = 500


@attrs.frozen
class CommitSpec:
    """`count` commits for partition 0 of a topic."""

    bootstrap: str
    broker_pid: int
    topic: str
    count: int


@attrs.frozen
class CommitResult:
    """One latency per commit, in microseconds, in order."""

    latencies_us: list[float]
    usage: Usage = attrs.field(converter=as_usage)


def commit(spec: CommitSpec) -> CommitResult:
    """Time `count` commits, after some unmeasured ones. Raises RuntimeError for any error code."""
    frame = commit_frame(_GROUP, spec.topic, 1)
    with RawConnection(spec.bootstrap) as connection:
        await_coordinator(connection, _GROUP, spec.topic)
        for _ in range(_UNMEASURED):
            _commit(connection, frame)
        gc.disable()
        meter = Meter(spec.broker_pid)
        latencies = [_commit(connection, frame) for _ in range(spec.count)]
        return CommitResult(latencies, meter.read())


def _commit(connection: RawConnection, frame: bytearray) -> float:
    sent_at = time.perf_counter_ns()
    connection.send(frame)
    answer = connection.receive(connection.receive_size())
    took_us = (time.perf_counter_ns() - sent_at) / 1000
    # The error code of the only partition is the last field.
    if answer[-2:] != b"\0\0":
        raise RuntimeError(f"a commit was answered with error code {int.from_bytes(answer[-2:], 'big')}")
    return took_us
