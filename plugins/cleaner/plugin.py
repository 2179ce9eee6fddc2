"""Hooks of the log cleaner; commands that only ask for a configuration need none of what they return."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.cleaner import keys

if TYPE_CHECKING:
    import click

    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.cleanup import CleanupPolicy
    from tidelog.kernel.seams.tasks import BackgroundTask


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of the log cleaner and of compaction."""
    return declared_keys(keys)


@hookimpl
def tidelog_cleanup_policies() -> Iterable[CleanupPolicy]:
    """Offer the policy `compact`."""
    from tidelog.plugins.cleaner.compaction.policy import CompactionPolicy

    return (CompactionPolicy(),)


@hookimpl
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:
    """Return the tasks that carry out the policies of all plugins."""
    from tidelog.plugins.cleaner.execution.log_cleanup import LogCleanup

    cleanup = LogCleanup(broker.cleanup_policies, broker.config, broker.topics, broker.clock)
    broker.register_log_cleaner(cleanup)
    return cleanup.background_tasks()


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the command group `cleaner`."""
    from tidelog.plugins.cleaner.command import cleaner

    return [cleaner]
