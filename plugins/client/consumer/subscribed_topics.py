"""Topics of a subscription: those that are named, and those that match a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from tidelog.plugins.client.cluster import ClusterMetadata


class SubscribedTopics:
    """The topics that a member is subscribed to.

    Attributes:
        named: those that were named
        pattern: for whole names of topics, None without one
        matched: those that have matched the pattern so far
    """

    def __init__(self) -> None:
        self.named: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.matched: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all topics."""
        return self.named | self.matched

    def replace(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to these topics, and to those that will match the pattern."""
        self.named, self.pattern, self.matched = frozenset(names), pattern, frozenset()

    def match(self, known: ClusterMetadata) -> bool:
        """Find the topics that match the pattern; return whether those are others than before.

        Topics of the brokers' own, such as `__consumer_offsets`, do not.
        """
        if self.pattern is None:
            return False
        matches, before = self.pattern.fullmatch, self.matched
        self.matched = frozenset(
            name for name, topic in known.topics.items() if not topic.is_internal and matches(name)
        )
        return self.matched != before
