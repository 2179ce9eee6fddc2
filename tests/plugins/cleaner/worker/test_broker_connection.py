"""What a worker process tells the broker while it works."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import pytest

from tidelog.plugins.cleaner.worker.__main__ import PROGRESS_INTERVAL_S, BrokerConnection
from tidelog.plugins.cleaner.worker.messages import GroupReplaced, GroupWritten, Progress, Rate

A_LOT = 1e12

Ends: TypeAlias = "tuple[Connection[Any, Any], Connection[Any, Any]]"


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The worker's end of a connection, and the broker's."""
    worker, broker = Pipe()
    with worker, broker:
        yield worker, broker


class Clock:
    """Seconds that pass when a test says so, and while the worker sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = self.slept_s = 0.0
        monkeypatch.setattr("tidelog.plugins.cleaner.worker.__main__.time.sleep", self._sleep)

    def __call__(self) -> float:
        return self.now_s

    def _sleep(self, seconds: float) -> None:
        # As a real one: never too short to be noticed.
        self.now_s += max(seconds, 1e-6)
        self.slept_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the worker."""
    return Clock(monkeypatch)


def received(broker: Connection[Any, Any]) -> list[object]:
    """All messages that have come."""
    found: list[object] = []
    while broker.poll():
        found.append(broker.recv())
    return found


def test_spent_reports_now_and_then_and_loses_no_byte(ends: Ends, clock: Clock) -> None:
    worker, broker = ends
    connection = BrokerConnection(worker, A_LOT, clock)
    for _ in range(1000):
        clock.now_s += PROGRESS_INTERVAL_S / 100
        connection.spent(3, 2)
    reports = received(broker)
    assert 9 <= len(reports) <= 10
    with ThreadPoolExecutor(1) as other:
        replacing = other.submit(connection.replace, GroupWritten(None, ()))
        while not isinstance(reports[-1], GroupWritten):
            reports.append(broker.recv())
        broker.send(GroupReplaced())
        replacing.result()
    found = [each for each in reports if isinstance(each, Progress)]
    assert sum(each.read_bytes for each in found) == 3000
    assert sum(each.written_bytes for each in found) == 2000


def test_spent_takes_a_new_rate_with_the_next_report(ends: Ends, clock: Clock) -> None:
    worker, broker = ends
    connection = BrokerConnection(worker, A_LOT, clock)
    broker.send(Rate(1000.0))
    connection.spent(500, 0)
    assert clock.slept_s < 1e-6
    clock.now_s += PROGRESS_INTERVAL_S
    connection.spent(250, 250)
    assert clock.slept_s == pytest.approx(0.5)
    assert len(received(broker)) == 1
