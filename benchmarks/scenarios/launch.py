"""From process start to the first answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.rows import Better, Row, Sample, ratio_at_most, value_at_most
from tests.peers import LOOPBACK, wait_until_answers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind, BrokerServer

    from .context import Bench

READY = Row(
    "ready",
    "process start to first answer",
    "s",
    Better.LOWER,
    (value_at_most(0.4), ratio_at_most(0.2)),
)

_START_TIMEOUT_S = 60.0
_PROBE_INTERVAL_S = 0.001


def timed_start(server: BrokerServer) -> float:
    """Start a broker and ask it every millisecond: seconds from process start to its first answer.

    What has to be done before, such as formatting a directory, is not counted. Raises ServerFailedError
    when it does not answer within a minute.
    """
    server.prepare()
    server.process.start()
    try:
        answered_at = wait_until_answers(
            LOOPBACK,
            server.port,
            _START_TIMEOUT_S,
            interval_s=_PROBE_INTERVAL_S,
            still_running=lambda: server.process.is_running,
        )
    except (TimeoutError, ConnectionAbortedError) as error:
        server.kill()
        raise server.process.failed("did not become ready") from error
    return answered_at - server.process.started_at


@attrs.frozen
class TimeToReady:
    """Start on a directory without topics."""

    name: str = attrs.field(default="ready", init=False)
    rows: Sequence[Row] = attrs.field(default=(READY,), init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        server = kind.server(work_dir)
        try:
            return [Sample(READY.name, timed_start(server))]
        finally:
            server.stop()
