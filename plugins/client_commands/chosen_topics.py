"""Which partitions a command is about: `orders` or `orders:0,3`, as an option or an argument, repeatable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import click

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client_commands.options import CommandFailed

if TYPE_CHECKING:
    from tidelog.plugins.client import BlockingClient


@attrs.frozen
class ChosenTopic:
    """A topic and some of its partitions, None for all."""

    topic: str
    partitions: tuple[int, ...] | None


def chosen_topics(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> list[ChosenTopic]:
    """Parse `TOPIC` or `TOPIC:PARTITION,...`; the `callback` of a repeatable option or argument."""
    return [_parse(text) for text in given]


def _parse(text: str) -> ChosenTopic:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return ChosenTopic(topic, None)
    try:
        partitions = tuple(int(number) for number in numbers.split(","))
    except ValueError:
        partitions = (-1,)
    if not topic or min(partitions) < 0:
        raise click.BadParameter(f"{text!r} is not of the form TOPIC or TOPIC:PARTITION,PARTITION.")
    return ChosenTopic(topic, partitions)


def selected(client: BlockingClient, chosen: Sequence[ChosenTopic]) -> list[TopicPartition]:
    """Return the partitions, those of whole topics as the broker has them.

    Raises:
        CommandFailed: a topic or a partition does not exist.
    """
    topics = client.metadata(sorted({each.topic for each in chosen})).topics
    found: list[TopicPartition] = []
    for each in chosen:
        topic = topics.get(each.topic)
        if topic is None:
            raise CommandFailed(
                f"There is no topic {each.topic!r}. `tidelog topics list` lists those there are."
            )
        there = [part.index for part in topic.partitions]
        found += _partitions(each, there)
    return list(dict.fromkeys(found))


def _partitions(chosen: ChosenTopic, there: Iterable[int]) -> list[TopicPartition]:
    known = set(there)
    wanted = sorted(known) if chosen.partitions is None else chosen.partitions
    for index in wanted:
        if index not in known:
            raise CommandFailed(f"Topic {chosen.topic!r} has {len(known)} partitions, there is no {index}.")
    return [TopicPartition(chosen.topic, index) for index in wanted]
