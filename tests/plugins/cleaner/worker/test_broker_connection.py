"""What a worker process tells the broker while it works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.plugins.cleaner.filters import Filter
from tidelog.kernel.errors import CorruptBatch, InvalidRecord, StorageError
from tidelog.kernel.seams.storage import WrittenBatch
from tidelog.plugins.cleaner.worker.__main__ import BrokerConnection, do_job
from tidelog.plugins.cleaner.worker.descriptors import receive_descriptors, send_descriptors
from tidelog.plugins.cleaner.worker.messages import (
    Failure,
    GroupBegun,
    GroupDraft,
    GroupReplaced,
    GroupWritten,
    JobFailed,
    Rate,
    RewriteJob,
    WorkerProgress,
)
from tidelog.plugins.cleaner.worker.rewriter import Rewriter
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.segments.transfer import FileDraftWriter

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


def test_spent_reports_ten_times_a_second_and_loses_no_byte(ends: Ends, clock: Clock) -> None:
    worker, broker = ends
    connection = BrokerConnection(worker, A_LOT, clock)
    for _ in range(1005):
        clock.now_s += 0.001
        connection.spent(3, 2)
    reports = received(broker)
    assert 9 <= len(reports) <= 10
    with ThreadPoolExecutor(1) as other:
        replacing = other.submit(connection.replace, GroupWritten(None, ()))
        while not isinstance(reports[-1], GroupWritten):
            reports.append(broker.recv())
        broker.send(GroupReplaced())
        replacing.result()
    found = [each for each in reports if isinstance(each, WorkerProgress)]
    assert sum(each.read_bytes for each in found) == 3015
    assert sum(each.written_bytes for each in found) == 2010


def test_spent_takes_a_new_rate_with_the_next_report(ends: Ends, clock: Clock) -> None:
    worker, broker = ends
    connection = BrokerConnection(worker, A_LOT, clock)
    broker.send(Rate(1000.0))
    connection.spent(500, 0)
    assert clock.slept_s < 1e-6
    clock.now_s += 0.1
    connection.spent(250, 250)
    assert clock.slept_s == pytest.approx(0.5)
    assert len(received(broker)) == 1


def test_check_takes_what_has_come_and_raises_when_the_broker_is_gone(ends: Ends, clock: Clock) -> None:
    worker, broker = ends
    connection = BrokerConnection(worker, A_LOT, clock)
    connection.check()
    broker.send(Rate(100.0))
    connection.check()
    connection.spent(50, 0)
    assert clock.slept_s == pytest.approx(0.5)
    broker.close()
    with pytest.raises(EOFError):
        connection.check()


def test_begin_gives_the_writer_the_open_files_that_follow(ends: Ends, clock: Clock, tmp_path: Path) -> None:
    worker, broker = ends
    connection = BrokerConnection(worker, A_LOT, clock)
    log = LogFile(str(tmp_path / "draft"), os.O_RDWR | os.O_CREAT)
    writer = FileDraftWriter(log, 0, 4096)
    broker.send(Rate(1.0))
    broker.send(GroupDraft(writer, {}, 1))
    send_descriptors(broker, writer.descriptors())
    (tmp_path / "draft").rename(tmp_path / "renamed")
    draft = connection.begin([0])
    (fd,) = draft.writer.descriptors()
    assert fd != log.fd
    draft.writer.append(b"batch", [WrittenBatch(0, 0, 5, 0)])
    assert (tmp_path / "renamed").read_bytes() == b"batch"
    assert received(broker) == [GroupBegun([0])]


def test_receive_descriptors_raises_when_the_other_end_is_gone(ends: Ends) -> None:
    worker, broker = ends
    broker.close()
    with pytest.raises(EOFError):
        receive_descriptors(worker, 1)


JOB = RewriteJob("flights-0", (), 0, 0, Filter(), 0, 0, (), 1, 1, 1, A_LOT)


def ends_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each job end so."""

    def run(_: object) -> None:
        raise error

    monkeypatch.setattr(Rewriter, "run", run)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "gone"), JobFailed("[Errno 2] gone", Failure.GONE)),
        (CorruptBatch("damaged"), JobFailed("damaged", Failure.CORRUPT)),
        (InvalidRecord("damaged"), JobFailed("damaged", Failure.CORRUPT)),
        (StorageError("refused"), JobFailed("refused", Failure.OTHER)),
        (OSError(5, "refused"), JobFailed("[Errno 5] refused", Failure.OTHER)),
        (ZeroDivisionError("oh"), JobFailed("ZeroDivisionError: oh", Failure.OTHER)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_do_job_says_why_a_job_failed(
    error: Exception, expected: JobFailed, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(error, monkeypatch)
    assert do_job(JOB, ends[0]) == expected


@pytest.mark.parametrize("error", [EOFError(), ConnectionResetError()], ids=repr)
def test_do_job_has_no_answer_for_a_broker_that_is_gone(
    error: Exception, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(error, monkeypatch)
    with pytest.raises(type(error)):
        do_job(JOB, ends[0])
