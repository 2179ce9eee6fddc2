"""The plugin that is the kernel itself: its configuration keys and background tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel.config import declared_keys, interceptor_keys, keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.kernel.seams.broker import BrokerContext

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.metering import MeteredBroker
    from tidelog.kernel.seams.controller import Controller
    from tidelog.kernel.seams.meters import MeterSource
    from tidelog.kernel.seams.tasks import BackgroundTask

NAME = "tidelog.kernel"
"""The name of this plugin; no distribution announces it, and it cannot be blocked."""


class BrokerParts(BrokerContext, Protocol):
    """A broker with the parts that its configuration chose."""

    @property
    def controller(self) -> Controller:
        """What decides on changes of the metadata."""
        ...

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the tasks of its storage, its metadata store and its coordinator."""
        ...


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys that the kernel reads."""
    return declared_keys(keys, interceptor_keys)


@hookimpl
def tidelog_meters(broker: MeteredBroker) -> Iterable[MeterSource]:
    """Return the meters of topics, partitions, connections, the event loop, sinks and the process."""
    from tidelog.kernel.metering import kernel_sources

    return kernel_sources(broker)


@hookimpl
def tidelog_background_tasks(broker: BrokerParts) -> Iterable[BackgroundTask]:
    """Return the tasks of storage, metadata store and coordinator, and the kernel's own."""
    # Not at the top: commands that only ask for a configuration never need it.
    from tidelog.kernel.maintenance import producer_expiry_task, timed_flush_task, token_expiry_tasks

    return (
        *broker.background_tasks(),
        producer_expiry_task(broker.config, broker.topics, broker.clock),
        timed_flush_task(broker.config, broker.topics, broker.clock),
        *token_expiry_tasks(broker.config, broker.controller),
    )
