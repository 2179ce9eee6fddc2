"""A worker process: how it is started, and what becomes of messages that it cannot take."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.plugins.cleaner import filters
from tidelog.plugins.cleaner.errors import WorkerDied
from tidelog.plugins.cleaner.execution.rewriting import CHUNK_BYTES
from tidelog.plugins.cleaner.worker.messages import Failure, JobFailed, Rate, RewriteJob
from tidelog.plugins.cleaner.worker.process import WorkerProcess

_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show processes so")


@pytest.fixture
def process() -> Iterator[WorkerProcess]:
    """A process, which is ended."""
    found = WorkerProcess()
    try:
        yield found
    finally:
        found.kill()


class Ends:
    """A message that ends the process with a status when it is read."""

    def __init__(self, status: int) -> None:
        self._status = status

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (self._status,)


async def answer_of(process: WorkerProcess, message: object) -> object:
    """Send a message and wait for the answer."""
    with trio.fail_after(DEADLINE_S):
        await process.send(message)
        return await process.receive()


def unknown_to_others(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType) -> object:
    """An object of a class in a module that is there in this process alone."""
    made = type("OnlyHere", (), {"__module__": module.__name__})
    monkeypatch.setattr(module, made.__name__, made, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made()


@pytest.mark.parametrize("module", [types.ModuleType("a_module_that_is_only_here"), filters])
async def test_a_filter_that_cannot_be_loaded_is_an_answer_and_the_process_goes_on(
    module: types.ModuleType, process: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may have been removed, or changed, since the broker started."""
    for _ in range(2):
        answer = await answer_of(process, unknown_to_others(monkeypatch, module))
        assert isinstance(answer, JobFailed)
        assert answer.reason.startswith("the filter cannot be loaded by name: ")


@attrs.frozen
class GoneSource:
    """A `SegmentSource` whose file was removed."""

    base_offset: int = 0
    size_bytes: int = 100
    index_bytes: int = 0
    time_index_bytes: int = 0

    def read(self, position: int, size: int) -> bytes:
        """Find no file."""
        raise FileNotFoundError(2, f"the segment of {self.size_bytes} bytes is gone")

    def will_need(self, position: int, size: int) -> None:
        """There is nothing."""

    def close(self) -> None:
        """It is not open."""


async def test_the_process_does_each_job_and_takes_a_rate_for_none(process: WorkerProcess) -> None:
    """A rate that comes when a job has ended is nothing to answer."""
    await process.send(Rate(1.0))
    for size in (100, 200):
        source = GoneSource(size_bytes=size)
        job = RewriteJob("flights-0", (source,), 5, 0, filters.Filter(), 0, 0, (), 1, 1, 1, 1.0)
        answer = await answer_of(process, job)
        assert answer == JobFailed(f"[Errno 2] the segment of {size} bytes is gone", Failure.GONE)
        await process.send(Rate(2.0))


@_LINUX
async def test_the_process_works_in_the_background(
    process: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await answer_of(process, unknown_to_others(monkeypatch, filters))
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(niceness + 10, 19)
    assert os.sched_getscheduler(process.pid) == os.SCHED_BATCH


@_LINUX
def test_the_process_starts_no_threads_and_keeps_the_memory_of_a_step(process: WorkerProcess) -> None:
    variables = dict(
        line.split("=", 1) for line in Path(f"/proc/{process.pid}/environ").read_text().split("\0") if line
    )
    for library in ("OPENBLAS", "OMP", "MKL"):
        assert variables[f"{library}_NUM_THREADS"] == "1"
    assert int(variables["MALLOC_MMAP_THRESHOLD_"]) >= 3 * CHUNK_BYTES
    assert int(variables["MALLOC_TRIM_THRESHOLD_"]) >= int(variables["MALLOC_MMAP_THRESHOLD_"])
    assert int(variables["MALLOC_TOP_PAD_"]) >= 128 * 1024


async def test_a_process_that_ends_is_an_error_that_says_how(process: WorkerProcess) -> None:
    with pytest.raises(WorkerDied, match=rf"the worker process {process.pid} ended with status 3$"):
        await answer_of(process, Ends(3))
    assert process.has_ended
    with pytest.raises(WorkerDied, match="ended with status 3"):
        await process.send(None)


async def test_a_process_that_is_killed_is_an_error_that_says_so(process: WorkerProcess) -> None:
    assert not process.has_ended
    os.kill(process.pid, signal.SIGTERM)
    with trio.fail_after(DEADLINE_S), pytest.raises(WorkerDied, match=r"was killed by SIGTERM$"):
        await process.receive()


def test_a_process_is_gone_when_it_was_killed() -> None:
    process = WorkerProcess()
    process.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert process.has_ended


_ENDS_WITH = """\
import ctypes, os, sys
from tidelog.plugins.cleaner.worker.__main__ import end_with
end_with(os.getppid() + int(sys.argv[1]))
sent = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(sent))
print(sent.value)
"""
"""Asks the system for the signal that comes with the end of the parent: PR_GET_PDEATHSIG of prctl(2)."""


@_LINUX
@pytest.mark.parametrize(("is_gone", "found"), [(0, str(int(signal.SIGKILL))), (1, "")])
def test_the_process_is_killed_with_its_broker_and_ends_if_that_is_gone_already(
    is_gone: int, found: str
) -> None:
    command = [sys.executable, "-c", _ENDS_WITH, str(is_gone)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == found
