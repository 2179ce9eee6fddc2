"""Slices of large requests: each is served like a request, with other requests in between."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

PARTITIONS_PER_SLICE: Final = 500


class Slice(NamedTuple, Generic[T]):
    """Some topics and partitions of a request; `places` are the topics' indexes in the request."""

    places: list[int]
    topics: list[T]


def slices(topics: Sequence[T], field: str, size: int = PARTITIONS_PER_SLICE) -> Iterator[Slice[T]]:
    """Split topics, whose partitions are in the list `field`, into slices of `size` partitions."""
    current: Slice[T] = Slice([], [])
    left = size
    for place, topic in enumerate(topics):
        partitions = getattr(topic, field)
        # Once for a topic without partitions, which its response names, too.
        for start in range(0, max(len(partitions), 1), size):
            some = copy.copy(topic)
            setattr(some, field, partitions[start : start + size])
            current.places.append(place)
            current.topics.append(some)
            left -= max(len(getattr(some, field)), 1)
            if left <= 0:
                yield current
                current = Slice([], [])
                left = size
    if current.topics:
        yield current


def has_more(topics: Sequence[T], field: str, most: int) -> bool:
    """Return whether topics have more than `most` partitions in the list `field`, at least one for each."""
    left = most
    for topic in topics:
        left -= len(getattr(topic, field)) or 1
        if left < 0:
            return True
    return False


def merge(answers: dict[int, T], places: Sequence[int], topics: Sequence[T], field: str) -> None:
    """Add the response to a slice; the partitions of a topic that was split are joined."""
    for place, topic in zip(places, topics, strict=True):
        if place in answers:
            getattr(answers[place], field).extend(getattr(topic, field))
        else:
            answers[place] = topic
