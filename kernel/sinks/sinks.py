"""All sinks of one broker, and the tasks that run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask

if TYPE_CHECKING:
    from tidelog.kernel.config import SinkConfig
    from tidelog.kernel.seams.events import Event
    from tidelog.kernel.seams.sinks import SinkBroker, SinkKind
    from tidelog.kernel.seams.tasks import BackgroundTask
    from tidelog.kernel.sinks.statistics import SinkStatistics
    from tidelog.kernel.sinks.supervision import SupervisedSink

READ_THREADS: Final = 4
"""Threads that read logs for sinks: other work in threads does not wait for them."""
STALLED_S: Final = 60
"""A sink that does nothing for so long, though there is something to do, is logged."""


class Sinks:
    """The sinks that are configured."""

    def __init__(
        self, configs: Sequence[SinkConfig], kinds: Mapping[str, SinkKind], broker: SinkBroker
    ) -> None:
        self._sinks = _supervised(configs, kinds, broker) if configs else ()

    def create(self) -> None:
        """Create all sinks, before the broker opens anything.

        Raises:
            ConfigError: a sink cannot be used as it is configured.
            PluginError: a kind of sink is broken.
        """
        for sink in self._sinks:
            sink.create()

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return a task for each sink, and one that looks after all of them."""
        if not self._sinks:
            return ()
        return (
            *(LifespanTask(f"sink {sink.name}", sink.run) for sink in self._sinks),
            PeriodicTask("stalled sinks", self._log_stalled, STALLED_S * 1000, STALLED_S * 1000),
        )

    def on_event(self, event: Event) -> None:
        """Report topics and partitions that come and go to the sinks."""
        for sink in self._sinks:
            sink.on_event(event)

    def statistics(self) -> Mapping[str, SinkStatistics]:
        """KIND.NAME → what that sink has done since the start."""
        return {str(sink.name): sink.statistics() for sink in self._sinks}

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
