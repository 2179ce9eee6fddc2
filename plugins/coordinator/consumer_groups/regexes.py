"""Subscriptions by regular expression, which the broker evaluates in RE2's syntax, as Kafka does.

RE2 needs time that is linear in the length of the name whatever the expression, and keeps to a bound of
memory; it has no look-around and no back-references for that. An expression has to match the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelog.kernel.errors import InvalidRegularExpression

MAX_REGEX_LENGTH = 4096
"""Characters of an expression: far above what names topics, far below what is slow to compile."""

MAX_REGEX_MEMORY = 1 << 20
"""Bytes that a compiled expression may take while it matches; RE2 refuses what needs more."""


class TopicRegex(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str, /) -> object | None:
        """Something if the expression matches all of the text."""
        ...


def compile_regex(regex: str) -> TopicRegex:
    """An expression, ready to match.

    Raises:
        InvalidRegularExpression: it is none in RE2's syntax, or larger than this broker evaluates.
    """
    # Only a broker whose clients subscribe this way pays for the library.
    import re2

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
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpression(f"{regex!r} is not a regular expression of RE2: {text}") from None
    return compiled


def matching_topics(regexes: Iterable[str], names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics that each expression means.

    Raises:
        InvalidRegularExpression: see `compile_regex`.
    """
    topics = list(names)
    found: dict[str, frozenset[str]] = {}
    for regex in regexes:
        fullmatch = compile_regex(regex).fullmatch
        found[regex] = frozenset(name for name in topics if fullmatch(name))
    return found
