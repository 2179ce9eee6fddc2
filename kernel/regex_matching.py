"""Matching of many or long texts with expressions of peers, where it holds no one up.

What may take long is matched in a thread, in which RE2 releases the interpreter's lock, and ends after some
seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import trio

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regexes import Regex, compile_regex

MATCHING_SECONDS: Final = 5.0
"""CPU time after which a thread stops matching: that of millions of topics, or of a malicious expression."""
_THREADS: Final = trio.CapacityLimiter(2)
"""Threads that match at once: expressions that take long must not take all processors."""


async def match_all(regexes: Iterable[Regex | str], texts: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the texts that each expression matches as a whole; on the event loop if that is cheap.

    Those whose turn does not come within `MATCHING_SECONDS` of CPU time are left out, and those that are
    malformed match nothing. One that is not compiled yet is compiled in the thread.
    """
    wanted = list(regexes)
    if len(wanted) == 1 and isinstance(wanted[0], Regex) and wanted[0].is_cheap(texts):
        return _match_all(wanted, texts)
    return await trio.to_thread.run_sync(_match_all, wanted, texts, limiter=_THREADS)


async def matching(regex: Regex, texts: Sequence[str]) -> frozenset[str]:
    """Return the texts that an expression matches as a whole; on the loop if that is cheap.

    Raises:
        InvalidRegularExpression: that takes longer than `MATCHING_SECONDS`.
    """
    found = await match_all([regex], texts)
    if regex.text not in found:
        raise takes_too_long(regex.text)
    return found[regex.text]


def takes_too_long(regex: str) -> InvalidRegularExpression:
    """Return the error about an expression that could not be matched in time."""
    return InvalidRegularExpression(
        f"{regex!r} takes more than {MATCHING_SECONDS:g} s to match, which is more than it may"
    )


def _match_all(regexes: Sequence[Regex | str], texts: Sequence[str]) -> Mapping[str, frozenset[str]]:
    # CPU time of this thread: on a busy machine an expression must not fail because others had the processor.
    until = time.thread_time() + MATCHING_SECONDS
    found: dict[str, frozenset[str]] = {}
    for each in regexes:
        try:
            regex = compile_regex(each) if isinstance(each, str) else each
        except InvalidRegularExpression:
            found[str(each)] = frozenset()
            continue
        matched: list[str] = []
        for text in texts:
            if regex.fullmatch(text):
                matched.append(text)
            if time.thread_time() > until:
                return found
        found[regex.text] = frozenset(matched)
    return found
