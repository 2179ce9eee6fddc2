"""Measure what counting costs where no exporter is: `python -m tools.meter_cost`.

Nanoseconds for an appended batch (two counts), a batch of a request, a read and a request (one each), the
least of several rounds, without the loop itself.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Final

from tidelog.kernel.log.traffic import TopicTraffic
from tidelog.plugins.protocol_kafka.request_meters import ApiMeter, VersionMeter

ROUNDS: Final = 7
REPEATED: Final = 200_000
STATEMENTS: Final = {
    "an appended batch": (
        "traffic = log.traffic\ntraffic.bytes_in += 1000\ntraffic.messages_in += 100 - 1 + 1"
    ),
    "a batch of a request": "log.traffic.produces += 1",
    "a read of a partition": "traffic = log.traffic\ntraffic.fetches += 1",
    "a request": "route.meter.requests += 1",
}


class _Log:
    __slots__ = ("traffic",)

    def __init__(self) -> None:
        self.traffic = TopicTraffic()


class _Route:
    __slots__ = ("meter",)

    def __init__(self) -> None:
        self.meter = VersionMeter(ApiMeter("Produce"), 13)


def costs() -> dict[str, float]:
    """Return nanoseconds by what is counted."""
    names = {"log": _Log(), "route": _Route()}
    empty = _least(timeit.Timer("pass", globals=names).timeit)
    return {
        what: _least(timeit.Timer(statement, globals=names).timeit) - empty
        for what, statement in STATEMENTS.items()
    }


def _least(timed: Callable[[int], float]) -> float:
    return min(timed(REPEATED) for _ in range(ROUNDS)) / REPEATED * 1e9


if __name__ == "__main__":
    for what, nanoseconds in costs().items():
        print(f"{what}: {nanoseconds:.0f} ns")
