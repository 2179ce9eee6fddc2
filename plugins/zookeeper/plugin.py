"""Hooks of the registries in ZooKeeper; without `zookeeper.connect` nothing else is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.zookeeper import keys

if TYPE_CHECKING:
    import click

    from tidelog.kernel.config import ConfigKey, UnsupportedKey
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import BackgroundTask


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object] | UnsupportedKey]:
    """Return the keys of the registries, and those of Kafka's that have no part here."""
    return (*declared_keys(keys), *keys.UNSUPPORTED)


@hookimpl
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:
    """Return the task that keeps the broker registered, where that is configured."""
    connect = broker.config[keys.ZOOKEEPER_CONNECT]
    if connect is None:
        return ()
    from tidelog.plugins.zookeeper.service import registration_task

    return (registration_task(broker, connect),)


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the command `zookeeper`."""
    from tidelog.plugins.zookeeper.command import zookeeper

    return [zookeeper]
