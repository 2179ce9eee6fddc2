"""The log cleaner of a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.cleaner.execution.log_cleanup import LogCleanup

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker


def log_cleanup_of(broker: Broker) -> LogCleanup:
    """What the plugin `cleaner` has registered at the broker."""
    assert isinstance(broker.log_cleaner, LogCleanup)
    return broker.log_cleaner


async def run_policies(broker: Broker, *names: str) -> None:
    """Do what the background tasks of all policies do, or of these, once each."""
    tasks = {task.name: task for task in log_cleanup_of(broker).policy_tasks()}
    for name in [f"cleanup policy {each}" for each in names] or sorted(tasks):
        await tasks[name].run()
