"""Subscriptions by regular expression, which the broker evaluates in RE2's syntax, as Kafka does.

RE2 needs time that is linear in the length of the name whatever the expression, and keeps to a bound of
memory; it has no look-around and no back-references for that. An expression has to match the whole name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.settings import Context

_log = logging.getLogger(__name__)

MAX_REGEX_LENGTH = 4096
"""Bound of an expression, in characters: far above what names topics, far below what is slow to compile."""

MAX_REGEX_MEMORY = 1 << 20
"""Bytes that a compiled expression may take while it matches; RE2 refuses what needs more."""

MIN_REFRESH_INTERVAL_MS = 10_000
"""As in Kafka: topics that are created one by one do not have all expressions evaluated each time."""


class TopicRegex(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str, /) -> object | None:
        """Return a match if the expression matches all of the text, else None."""
        ...


def compile_regex(regex: str) -> TopicRegex:
    """Return a compiled expression.

    Raises:
        InvalidRegularExpression: it is malformed in RE2's syntax, or larger than this broker evaluates.
    """
    # Only a broker whose clients subscribe this way pays for the library.
    re2: Any = import_module("re2")
    if len(regex) > MAX_REGEX_LENGTH:
        raise InvalidRegularExpression(
            f"a regular expression of {len(regex)} characters is longer than {MAX_REGEX_LENGTH}"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_REGEX_MEMORY
    try:
        compiled: TopicRegex = re2.compile(regex, options)
    except re2.error as error:
        reason = _reason(error)
        raise InvalidRegularExpression(f"{regex!r} is not a regular expression of RE2: {reason}") from None
    finally:
        # The library keeps the last 128 of them, and each may take `MAX_REGEX_MEMORY`.
        re2.purge()
    return compiled


def _reason(error: Exception) -> str:
    reason: object = error.args[0] if error.args else error
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


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
