"""Regular expressions that a peer or a configuration gives, in RE2's syntax, as in Kafka.

RE2 needs time that is linear in the length of the text whatever the expression, and keeps to a bound of
memory; it has no look-around and no back-references for that.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from tidelog.kernel.errors import InvalidRegularExpression

MAX_REGEX_LENGTH = 4096
"""Bound of an expression, in characters: far above what names topics, far below what is slow to compile."""

MAX_REGEX_MEMORY = 1 << 20
"""Bytes that a compiled expression may take while it matches; RE2 refuses what needs more."""


class Regex(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str, /) -> object | None:
        """Return a match if the expression matches all of the text, else None."""
        ...


def compile_regex(regex: str) -> Regex:
    """Return a compiled expression.

    Raises:
        InvalidRegularExpression: it is malformed in RE2's syntax, or larger than this broker evaluates.
    """
    # Only a broker whose users give an expression pays for the library.
    re2: Any = import_module("re2")
    if len(regex) > MAX_REGEX_LENGTH:
        raise InvalidRegularExpression(
            f"a regular expression of {len(regex)} characters is longer than {MAX_REGEX_LENGTH}"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_REGEX_MEMORY
    try:
        compiled: Regex = re2.compile(regex, options)
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
