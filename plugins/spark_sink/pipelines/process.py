"""The process of a pipeline as the broker sees it: started, written to, read from, and ended as a group."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from tidelog.plugins.spark_sink.pipelines.definition import Pipeline
from tidelog.plugins.spark_sink.pipelines.reports import Report

DRIVER: Final = (sys.executable, "-m", "tidelog.plugins.spark_sink.pipelines.driver")
_MOST_LINE_BYTES: Final = 16 << 20
"""A report has the offsets of all partitions, of which there may be thousands."""


class DriverProcess:
    """The process that runs the query of a pipeline, with the JVM and the workers that it starts."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._received = bytearray()

    @property
    def process_id(self) -> int:
        """Its id, and that of its process group."""
        return self._process.pid

    async def write(self, command: str) -> None:
        """Write a command; nothing happens if the process has ended."""
        await self._write_line(json.dumps(command))

    async def read(self) -> Report | None:
        """Wait for the next report; return None when the process has ended.

        Raises:
            ValueError: what it writes is no report.
        """
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        while b"\n" not in self._received:
            if len(self._received) > _MOST_LINE_BYTES:
                raise ValueError("the process of the pipeline writes something other than reports")
            data = await self._process.stdout.receive_some()
            if not data:
                return None
            self._received += data
        line, _, rest = self._received.partition(b"\n")
        self._received = bytearray(rest)
        return Report.from_line(bytes(line))

    async def wait(self) -> int:
        """Wait until the process has ended, and return its exit code, the negative signal if one ended it."""
        return await self._process.wait()

    def kill(self) -> None:
        """End the process and all that belongs to it, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def configure(self, pipeline: Pipeline) -> None:
        """Write the pipeline, which the process waits for."""
        await self._write_line(pipeline.to_text())

    async def _write_line(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._process.stdin.send_all(line.encode() + b"\n")


@asynccontextmanager
async def driver_process(
    pipeline: Pipeline, command: Sequence[str] = DRIVER
) -> AsyncGenerator[DriverProcess]:
    """Run the process of a pipeline; when the block ends, nothing is left of it.

    Raises:
        OSError: it cannot be started.
    """
    folder = Path(await trio.to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="tidelog-pipeline-")))
    try:
        # In the broker's session, since niceness only counts within one; but in a group of its own, so that
        # Ctrl-C in a terminal is for the broker alone, and a JVM cannot outlive what has started it.
        process = await trio.lowlevel.open_process(
            [*command, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        driver = DriverProcess(process)
        try:
            await driver.configure(pipeline)
            yield driver
        finally:
            # The whole group, before anything waits: a JVM must not outlive a broker that is cancelled.
            driver.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                await _close(process)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


async def _close(process: trio.Process) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()
