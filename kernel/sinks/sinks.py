"""All sinks of one broker, and the tasks that run them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.config.resolve import refuse
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.kernel.config import SinkConfig
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.seams.events import Event
    from tidelog.kernel.seams.sinks import SinkBroker, SinkKind
    from tidelog.kernel.seams.tasks import BackgroundTask, Lifespan
    from tidelog.kernel.sinks.statistics import SinkStatistics
    from tidelog.kernel.sinks.supervision import SupervisedSink

_log = logging.getLogger(__name__)

READ_THREADS: Final = 4
"""Threads that read logs for sinks: other work in threads does not wait for them."""
STALLED_S: Final = 60
"""A sink that does nothing for so long, though there is something to do, is logged."""

STATUS_S: Final = 1
"""The least time between two writes of the status file."""


class Sinks:
    """The sinks that are configured."""

    def __init__(
        self, configs: Sequence[SinkConfig], kinds: Mapping[str, SinkKind], broker: SinkBroker
    ) -> None:
        self._config = broker.config
        self._sinks = _supervised(configs, kinds, broker) if configs else ()

    def create(self) -> None:
        """Create all sinks, before the broker opens anything.

        Raises:
            ConfigError: sinks cannot be used as they are configured; lists all of them.
            PluginError: a kind of sink is broken.
        """
        problems: list[str] = []
        for sink in self._sinks:
            try:
                sink.create()
            except ConfigError as error:
                problems.append(str(error))
        refuse(problems)

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return a task for each sink, and one that supervises all of them."""
        if not self._sinks:
            return ()
        return (
            *(LifespanTask(f"sink {sink.name}", sink.run) for sink in self._sinks),
            LifespanTask("status of sinks", self._publish_status),
            PeriodicTask("stalled sinks", self._log_stalled, STALLED_S * 1000, STALLED_S * 1000),
        )

    async def follow(self, change: ImageChange) -> None:
        """Report topics and partitions that come and go to the sinks."""
        if change.delta.topics:
            for sink in self._sinks:
                sink.follow(change.delta.topics)

    def on_event(self, event: Event) -> None:
        """Report partitions whose log directory failed to the sinks."""
        for sink in self._sinks:
            sink.on_event(event)

    def statistics(self) -> Mapping[str, SinkStatistics]:
        """KIND.NAME → what that sink has done since the start."""
        return {str(sink.name): sink.statistics() for sink in self._sinks}

    async def _publish_status(self, lifespan: Lifespan) -> None:
        """Keep the status file as the statistics are, until the broker stops."""
        from tidelog.kernel.sinks.status import status_file

        lifespan.ready()
        file = status_file(self._config)
        if file is None:
            return
        try:
            await self._write_changes(file, lifespan)
        finally:
            file.unlink(missing_ok=True)

    async def _write_changes(self, file: Path, lifespan: Lifespan) -> None:
        import trio

        from tidelog.kernel.sinks.status import write_status

        written: Mapping[str, SinkStatistics] = {}
        stopping = refused = False
        while not stopping:
            if (found := self.statistics()) != written:
                try:
                    await trio.to_thread.run_sync(write_status, file, found)
                    written, refused = found, False
                except OSError as error:
                    # It is tried again: the disk may have room by then.
                    if not refused:
                        _log.warning("the status that `tidelog sinks` shows cannot be written: %s", error)
                    refused = True
            with trio.move_on_after(STATUS_S):
                await lifespan.wait_stopping()
                stopping = True

    async def _log_stalled(self) -> None:
        for sink in self._sinks:
            sink.log_if_stalled(STALLED_S)


def _supervised(
    configs: Sequence[SinkConfig], kinds: Mapping[str, SinkKind], broker: SinkBroker
) -> Sequence[SupervisedSink]:
    # Not at the top: most brokers have no sinks.
    import trio

    from tidelog.kernel.seams.sinks import SinkContext
    from tidelog.kernel.sinks.supervision import SupervisedSink

    threads = trio.CapacityLimiter(READ_THREADS)
    return [
        SupervisedSink(SinkContext(each.name, each, broker), kinds[each.name.kind], threads)
        for each in configs
    ]
