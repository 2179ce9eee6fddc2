"""The sink `spark`: one pipeline, whose process it starts, informs, watches and stops.

A run of the sink is a life of the process. When it fails, so does the run, and the kernel starts another one
after a while, with the backoff of every sink.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from typing import Any, Final

import trio

from tidelog.kernel.config.listeners import format_address
from tidelog.kernel.config.paths import data_directories
from tidelog.kernel.errors import ConfigError, TidelogError
from tidelog.kernel.seams.sinks import SinkContext, SinkFeed
from tidelog.plugins.spark_sink.pipelines.checks import pipeline_of
from tidelog.plugins.spark_sink.pipelines.keys import BOOTSTRAP_SERVERS, STOP_TIMEOUT_MS
from tidelog.plugins.spark_sink.pipelines.process import DRIVER, DriverProcess, driver_process
from tidelog.plugins.spark_sink.pipelines.reports import NEWS, STOP, Report

_log = logging.getLogger(__name__)

_CODEC: Final = "kafka"
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - not bound


class PipelineFailed(TidelogError):
    """The process of a pipeline has failed; the message is what it has reported."""


class PipelineSink:
    """A pipeline for one run; `command` starts its process."""

    def __init__(self, context: SinkContext, command: Sequence[str] = DRIVER) -> None:
        self._context = context
        self._command = command
        self._last = Report("starting")
        self._started = trio.Event()
        self._position: dict[str, Any] = {}

    async def run(self, feed: SinkFeed) -> None:
        """Run the process of the pipeline until the broker stops.

        Raises:
            PipelineFailed: the process has failed, or ended by itself.
            ConfigError: there is no listener by which it could reach the broker.
        """
        config = self._context.config
        pipeline = pipeline_of(
            config,
            config[BOOTSTRAP_SERVERS] or self._address(),
            data_directories(self._context.broker.config),
        )
        async with driver_process(pipeline, self._command) as driver:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._inform, driver, feed)
                await self._watch(driver, feed)
                nursery.cancel_scope.cancel()
            code = await driver.wait()
        if not feed.stopping:
            raise PipelineFailed(self._last.error or f"its process {_ended(code)}")

    async def _inform(self, driver: DriverProcess, feed: SinkFeed) -> None:
        """Report news to the process once its query runs, and stop it with the broker."""
        await self._wait_started(feed)
        async for _ in feed:
            # What the process has reported may be of partitions that the feed has added only now.
            self._note_delivered(feed)
            await driver.write(NEWS)
        await driver.write(STOP)
        timeout_ms = self._context.config[STOP_TIMEOUT_MS]
        await trio.sleep(timeout_ms / 1000)
        _log.warning(
            "pipeline %s: its micro-batch has not ended in %g s. It is ended, and repeated at the next start",
            self._context.name.name,
            timeout_ms / 1000,
        )
        driver.kill()

    async def _wait_started(self, feed: SinkFeed) -> None:
        """Wait until the query has started, or the broker stops."""

        async def start_with_stop() -> None:
            await feed.wait_stopping()
            self._started.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start_with_stop)
            await self._started.wait()
            nursery.cancel_scope.cancel()

    async def _watch(self, driver: DriverProcess, feed: SinkFeed) -> None:
        details: dict[str, str | int] = {"process_id": driver.process_id}
        try:
            while (report := await driver.read()) is not None:
                self._last = report
                if report.state != "starting":
                    self._started.set()
                details |= report.details()
                feed.report(**details)
                if report.position is not None:
                    self._position = report.position
                    self._note_delivered(feed)
        except ValueError as error:
            self._last = Report("failed", error=str(error))
            driver.kill()

    def _note_delivered(self, feed: SinkFeed) -> None:
        ids = self._position.get("$topics", {})
        for (topic, partition), log in feed.logs.items():
            offset = self._position.get(topic, {}).get(str(partition))
            # The position may be that of an earlier topic of the name.
            if offset is not None and ids.get(topic, str(log.topic_id)) == str(log.topic_id):
                log.delivered(offset)

    def _address(self) -> str:
        """Return where this broker listens for Kafka's protocol.

        Raises:
            ConfigError: nowhere.
        """
        bound = self._context.broker.listeners
        for listener in self._context.broker.config.served_listeners():
            if listener.codec == _CODEC and listener.name in bound:
                host, _, port = bound[listener.name].rpartition(":")
                host = host.strip("[]")
                return format_address(_EVERY_ADDRESS.get(host, host), int(port))
        raise ConfigError(f"no listener speaks Kafka's protocol; set {BOOTSTRAP_SERVERS} to that of a broker")


def _ended(code: int) -> str:
    return f"has ended with code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
