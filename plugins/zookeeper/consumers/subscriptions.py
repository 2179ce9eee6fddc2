"""The consumer id registry: which topics a member wants, in how many streams.

The value of `/consumers/GROUP/ids/CONSUMER`, for two topics and for a list of them:

    {"version":1,"subscription":{"orders":2,"clicks":1},"pattern":"static","timestamp":"1467829"}
    {"version":1,"subscription":{"web-.*":1},"pattern":"white_list","timestamp":"1467829"}

Source: `TopicCount` and `TopicFilter` of Apache Kafka 0.8.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import attrs

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regexes import Regex, compile_regex
from tidelog.kernel.topic_names import INTERNAL_TOPICS

Pattern: TypeAlias = Literal["static", "white_list", "black_list"]
_PATTERNS: Final[tuple[Pattern, ...]] = ("static", "white_list", "black_list")

MAX_STREAMS: Final = 10_000
"""Streams of one topic and member: another member's number is a loop of this one."""


@attrs.frozen
class Subscription:
    """Topic → number of streams; with a pattern of lists one regular expression → number of streams."""

    streams: Mapping[str, int]
    pattern: Pattern = "static"

    def streams_of(self, topics: Sequence[str], *, with_internal: bool = False) -> Mapping[str, int]:
        """Return topic → number of streams, for all that are wanted of these.

        A list leaves out internal topics unless `with_internal`, and one that is no regular expression of
        RE2 has no topic.
        """
        if self.pattern == "static":
            return self.streams
        ((text, count),) = self.streams.items()
        regex = _compiled(text)
        if regex is None:
            return {}
        is_wanted = self.pattern == "white_list"
        return {
            topic: count
            for topic in topics
            if regex.fullmatch(topic) is is_wanted and (with_internal or topic not in INTERNAL_TOPICS)
        }

    def encode(self, now_ms: int) -> bytes:
        """Return the value of the node."""
        value = {
            "version": 1,
            "subscription": dict(self.streams),
            "pattern": self.pattern,
            "timestamp": str(now_ms),
        }
        return json.dumps(value, separators=(",", ":")).encode()


def topic_filter(text: str) -> str:
    """Return the expression of a list as users of the old consumers write it: commas are alternatives.

    Raises:
        InvalidRegularExpression: it is none of RE2.
    """
    regex = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    compile_regex(regex)
    return regex


def parse_subscription(value: bytes) -> Subscription | None:
    """Return what a node says, None if it is malformed: its member gets nothing."""
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, object]", found)
    pattern, streams = fields.get("pattern", "static"), fields.get("subscription")
    if pattern not in _PATTERNS or not isinstance(streams, dict):
        return None
    counts = cast("dict[str, object]", streams)
    if not all(isinstance(count, int) and 0 <= count <= MAX_STREAMS for count in counts.values()):
        return None
    if pattern != "static" and len(counts) != 1:
        return None
    return Subscription(cast("dict[str, int]", counts), pattern)


def _compiled(text: str) -> Regex | None:
    try:
        return compile_regex(text)
    except InvalidRegularExpression:
        return None
