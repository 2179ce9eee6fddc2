"""Which partitions a query reads: of named topics, of topics that match a pattern, or named ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, Protocol

import attrs

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regexes import Regex, compile_regex
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import ClusterMetadata
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.positions import parse_partitions


class TopicSelection(Protocol):
    """What an option selects."""

    @property
    def topics(self) -> Sequence[str] | None:
        """The topics whose metadata are needed, None for all."""
        ...

    def matches(self, partition: TopicPartition) -> bool:
        """Return whether a partition of these topics is read."""
        ...


@attrs.frozen
class SelectedTopics:
    """All partitions of these topics."""

    topics: tuple[str, ...]

    def matches(self, partition: TopicPartition) -> bool:
        """Return True: no other topics are asked for."""
        return True


@attrs.frozen
class SelectedPattern:
    """All partitions of topics in whose names a pattern is found."""

    pattern: str
    topics: None = None

    def matches(self, partition: TopicPartition) -> bool:
        """Return whether the topic's name has the pattern, anywhere as with Spark's own source."""
        return bool(_compiled(self.pattern).search(partition.topic))


@attrs.frozen
class Partitions:
    """These partitions alone."""

    partitions: frozenset[TopicPartition]

    @property
    def topics(self) -> Sequence[str]:
        """Return the topics of the partitions."""
        return sorted({partition.topic for partition in self.partitions})

    def matches(self, partition: TopicPartition) -> bool:
        """Return whether it is one of them."""
        return partition in self.partitions


def partitions_in(metadata: ClusterMetadata, subscription: TopicSelection) -> frozenset[TopicPartition]:
    """Return the partitions that exist and are read; internal topics never are."""
    return frozenset(
        partition
        for topic in metadata.topics.values()
        if not topic.is_internal
        for partition in (TopicPartition(topic.name, part.index) for part in topic.partitions)
        if subscription.matches(partition)
    )


def _subscribe(text: str) -> SelectedTopics:
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise InvalidOption("the option subscribe has to be topics separated by commas, and it is empty")
    return SelectedTopics(topics)


def _subscribe_pattern(text: str) -> SelectedPattern:
    if not text.strip():
        raise InvalidOption("the option subscribePattern has to be a regular expression, and it is empty")
    try:
        _compiled(text.strip())
    except re.error as error:
        raise InvalidOption(
            f"the option subscribePattern has to be a regular expression, and {text!r} is none: {error}"
        ) from None
    return SelectedPattern(text.strip())


@cache
def _compiled(pattern: str) -> Regex | re.Pattern[str]:
    """Return a compiled pattern: RE2's, which never takes long, unless it has what RE2 lacks.

    Such as look-ahead. It is not an attribute: a subscription is pickled for the tasks of a query.
    """
    try:
        return compile_regex(pattern)
    except InvalidRegularExpression:
        return re.compile(pattern)


def _assign(text: str) -> Partitions:
    return Partitions(parse_partitions("assign", text))


SUBSCRIPTIONS: Final[dict[str, Callable[[str], TopicSelection]]] = {
    "subscribe": _subscribe,
    "subscribePattern": _subscribe_pattern,
    "assign": _assign,
}
"""How each of the options is read; a query has one of them."""
