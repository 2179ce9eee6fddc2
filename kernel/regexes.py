"""Regular expressions that a peer or a configuration gives, in RE2's syntax, as in Kafka.

RE2 needs time that is linear in the length of the text whatever the expression, and keeps to a bound of
memory; it has no look-around and no back-references for that. The time is still that of the text times the
compiled program, about 5 ns for each character and instruction at worst: so the program is bounded, and what
is not cheap is matched by `regex_matching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from tidelog.kernel.errors import InvalidRegularExpression

MAX_REGEX_LENGTH: Final = 4096
"""Bound of an expression, in characters: far above what names topics, far below what is slow to compile."""
MAX_PROGRAM_SIZE: Final = 4096
"""Bound of the instructions that it is compiled to: one per character, unless repetitions are counted."""
MAX_REGEX_MEMORY: Final = 1 << 20
"""Bytes that a compiled expression may take while it matches; RE2 refuses what needs more."""
CHEAP_STEPS: Final = 200_000
"""Characters times instructions that are matched on the event loop: at worst 2 ms, mostly a tenth of that."""
CHEAP_TEXTS: Final = 1000


class Regex:
    """A compiled expression; `program_size` is the number of its instructions."""

    __slots__ = ("_compiled", "program_size", "text")

    def __init__(self, text: str, compiled: Any) -> None:
        self.text = text
        self._compiled = compiled
        self.program_size = max(compiled.programsize, compiled.reverseprogramsize)

    def fullmatch(self, text: str, /) -> bool:
        """Return whether the expression matches all of the text."""
        return self._compiled.fullmatch(text) is not None

    def search(self, text: str, /) -> bool:
        """Return whether the expression matches a part of the text."""
        return self._compiled.search(text) is not None

    def is_cheap(self, texts: Sequence[str]) -> bool:
        """Return whether all of these may be matched on the event loop."""
        steps = self.program_size * (len(texts) + sum(map(len, texts)))
        return len(texts) <= CHEAP_TEXTS and steps <= CHEAP_STEPS


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
        compiled = Regex(regex, re2.compile(regex, options))
    except re2.error as error:
        reason = _reason(error)
        raise InvalidRegularExpression(f"{regex!r} is not a regular expression of RE2: {reason}") from None
    finally:
        # The library keeps the last 128 of them, and each may take `MAX_REGEX_MEMORY`.
        re2.purge()
    if compiled.program_size > MAX_PROGRAM_SIZE:
        raise InvalidRegularExpression(
            f"{regex!r} is compiled to {compiled.program_size} instructions, more than {MAX_PROGRAM_SIZE}; "
            "count less in its repetitions"
        )
    return compiled


def _reason(error: Exception) -> str:
    reason: object = error.args[0] if error.args else error
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
