"""Offsets of partitions, and their JSON form: `{"topicA": {"0": 23, "1": -1}}`.

It is that of Spark's own Kafka source, whose checkpoints can be continued. So a position can be copied from a
query's progress or its checkpoint into an option, which ignores fields beside the topics, such as `$topics`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.option_values import InvalidOption

Positions: TypeAlias = Mapping[TopicPartition, int]

LATEST: Final = -1
EARLIEST: Final = -2
MOST_OFFSET: Final = 2**63 - 1


def to_json(positions: Positions) -> dict[str, Any]:
    """Return offsets by topic and partition, in an order that does not change: Spark compares the text."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for partition in sorted(positions):
        found[partition.topic][str(partition.partition)] = positions[partition]
    return dict(found)


def without_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a stored position has of topics, without its other fields, whose names no topic has."""
    return {name: each for name, each in stored.items() if not name.startswith("$")}


def from_json(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the offsets by partition."""
    return {
        TopicPartition(topic, int(index)): offset
        for topic, offsets in found.items()
        for index, offset in offsets.items()
    }


def parse_positions(option: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """Read an option whose value is a JSON object of offsets or timestamps, none of them below `least`.

    Raises:
        InvalidOption: it is something else.
    """
    try:
        found = from_json(without_fields(json.loads(text)))
    except (AttributeError, TypeError, ValueError):
        found = {}
    # Not `isinstance`: to Python `true` is an int.
    values_fit = all(type(value) is int and least <= value <= MOST_OFFSET for value in found.values())
    if not found or not values_fit or any(partition.partition < 0 for partition in found):
        raise InvalidOption(
            f"the option {option} has to be like "
            f'{{"topicA":{{"0":23,"1":45}},"topicB":{{"0":0}}}}, not {text!r}'
        )
    return found


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """Read an option whose value is a JSON object with a list of partitions for each topic.

    Raises:
        InvalidOption: it is something else.
    """
    try:
        found = [(topic, index) for topic, indices in json.loads(text).items() for index in indices]
    except (AttributeError, TypeError, ValueError):
        found = []
    if not found or not all(type(index) is int and index >= 0 for _, index in found):
        raise InvalidOption(
            f'the option {option} has to be like {{"topicA":[0,1],"topicB":[2,4]}}, not {text!r}'
        )
    return frozenset(TopicPartition(topic, index) for topic, index in found)
