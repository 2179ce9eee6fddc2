"""Hooks of mirrors; without a table `[mirrors.NAME]` nothing but the keys is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.mirror import keys
from tidelog.plugins.mirror.client_keys import SOURCE_KEYS, TARGET_KEYS

if TYPE_CHECKING:
    import click

    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import BackgroundTask


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of tables `[mirrors.NAME]`."""
    return (*declared_keys(keys), *SOURCE_KEYS, *TARGET_KEYS)


@hookimpl
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:
    """Return the task that runs the mirrors, where some are configured."""
    tables = broker.config.tables(keys.SECTION)
    if not tables:
        return ()
    from tidelog.plugins.mirror.service import mirror_task
    from tidelog.plugins.mirror.settings import MirrorSettings

    return (mirror_task(broker, [MirrorSettings.of_table(each) for each in tables]),)


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the commands `mirror` and `mirrors`."""
    from tidelog.plugins.mirror.command import mirror
    from tidelog.plugins.mirror.status_command import mirrors

    return [mirror, mirrors]
