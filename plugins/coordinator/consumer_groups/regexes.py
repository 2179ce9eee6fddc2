"""Subscriptions by regular expression, which the broker evaluates, as Kafka does.

An expression has to match the whole name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regexes import compile_regex
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.settings import Context

_log = logging.getLogger(__name__)

MIN_REFRESH_INTERVAL_MS = 10_000
"""As in Kafka: topics that are created one by one do not have all expressions evaluated each time."""


def matching_topics(regexes: Iterable[str], names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the topics that each expression matches; none for a malformed one of another broker."""
    topics = list(names)
    found: dict[str, frozenset[str]] = {}
    for regex in regexes:
        try:
            fullmatch = compile_regex(regex).fullmatch
        except InvalidRegularExpression as error:
            _log.warning("no topics are found for a subscription: %s", error)
            found[regex] = frozenset()
        else:
            found[regex] = frozenset(name for name in topics if fullmatch(name))
    return found


def regexes_to_resolve(group: ConsumerGroup, regex: str | None, context: Context) -> frozenset[str]:
    """Return the expressions of a group that have to be resolved before a heartbeat with `regex`.

    That is one that is new to the group; and all of them when topics have changed since the last time, but
    not too often, or when that was long ago.
    """
    wanted = frozenset((regex,) if regex and regex not in group.regexes else ())
    if not group.regexes:
        return wanted
    age_ms = context.now_ms - min(resolved.timestamp_ms for resolved in group.regexes.values())
    stale = any(resolved.version != context.topics.version for resolved in group.regexes.values())
    if age_ms > context.settings.regex_refresh_interval_ms or (stale and age_ms > MIN_REFRESH_INTERVAL_MS):
        return wanted | group.regexes.keys()
    return wanted
