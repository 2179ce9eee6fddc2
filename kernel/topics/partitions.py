"""The partitions of a topic that are to be opened."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.metadata import TopicImage
from tidelog.kernel.pace import each_in_steps
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition


def partition_specs(
    record: TopicImage, config: TopicConfig, first: int = 0
) -> Generator[None, None, list[PartitionSpec]]:
    """Return the partitions of a topic from number `first` on, to be opened; in steps."""
    return each_in_steps(
        range(first, len(record.partitions)),
        lambda index: PartitionSpec(TopicPartition(record.name, index), record.topic_id, config),
    )
