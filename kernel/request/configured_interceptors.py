"""The interceptors that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.kernel.config import interceptor_keys as keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.request.active_interceptor import ActiveInterceptor
from tidelog.kernel.request.interception import Interception
from tidelog.kernel.request.policies import Policies
from tidelog.kernel.seams.interceptors import (
    Change,
    InterceptorContext,
    InterceptorKind,
    PartitionsCreation,
    TopicConfigChange,
    TopicCreation,
    TopicDeletion,
)

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.config.tables import TableConfig

ALL_CHANGES: tuple[type[Change], ...] = (TopicCreation, PartitionsCreation, TopicDeletion, TopicConfigChange)


def configured_interceptors(
    config: Config, kind_named: Callable[[str], InterceptorKind], clock: Callable[[], int]
) -> tuple[Interception | None, Policies | None]:
    """Return what intercepts batches and what is asked about changes; each is None if nothing does.

    Raises:
        ConfigError: an interceptor cannot be used as it is configured, or names no listener of this broker.
        PluginError: no plugin offers a kind.
    """
    active: list[ActiveInterceptor] = []
    for table in config.tables(keys.SECTION):
        _check_listeners(config, table)
        context = InterceptorContext(table.name, config, table, clock)
        active.append(_active(table, kind_named(table[keys.TYPE]), context))
    asked = [(each, ALL_CHANGES) for each in active if each.overrides("before_change")]
    for key, change in (
        (keys.CREATE_TOPIC_POLICY_CLASS_NAME, TopicCreation),
        (keys.ALTER_CONFIG_POLICY_CLASS_NAME, TopicConfigChange),
    ):
        if name := config[key]:
            policy = kind_named(name).create(InterceptorContext(name, config, None, clock))
            asked.append((ActiveInterceptor(name, policy), (change,)))
    of_batches = [each for each in active if any(map(each.overrides, _OF_BATCHES))]
    return Interception(of_batches) if of_batches else None, Policies(asked) if asked else None


_OF_BATCHES = ("before_append", "rewrite", "after_append", "before_fetch", "show")


def _active(table: TableConfig, kind: InterceptorKind, context: InterceptorContext) -> ActiveInterceptor:
    pattern = table[keys.TOPICS_REGEX]
    return ActiveInterceptor(
        table.name,
        kind.create(context),
        topics=None if pattern is None else pattern.compiled,
        listeners=table[keys.LISTENERS],
        passes=table[keys.ON_FAILURE] == keys.PASS,
        timeout_s=table[keys.TIMEOUT_MS] / 1000,
    )


def _check_listeners(config: Config, table: TableConfig) -> None:
    served = [listener.name for listener in config.served_listeners()]
    for name in table[keys.LISTENERS]:
        if name not in served:
            raise ConfigError(
                f"{keys.SECTION}.{table.name}.listeners has {name!r}, which is no listener; there are: "
                f"{', '.join(served)}"
            )
