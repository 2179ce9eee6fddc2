"""The plugin that is the kernel itself: its configuration keys and background tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys, keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.kernel.seams import cleanup

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import BackgroundTask

NAME = "tidelog.kernel"
"""The name of this plugin; no distribution announces it, and it cannot be blocked."""


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys that the kernel reads, and those of cleanup until a policy hands them over."""
    return declared_keys(keys, cleanup)


@hookimpl
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:
    """Return flushing by time, and the expiry of producers."""
    # Not at the top: commands that only ask for a configuration never need it.
    from tidelog.kernel.maintenance import producer_expiry_task, timed_flush_task

    return (
        producer_expiry_task(broker.config, broker.topics, broker.clock),
        timed_flush_task(broker.config, broker.topics, broker.clock),
    )
