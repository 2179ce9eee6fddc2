"""An open topic."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Mapping

import attrs

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.metadata import TopicImage
from tidelog.kernel.pace import ITEMS_PER_STEP, each_in_steps
from tidelog.kernel.replica import Partition
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.kernel.topic_names import INTERNAL_TOPICS


@attrs.define(eq=False)
class Topic:
    """An open topic; `partitions[n]` is partition n.

    `adopted`: nothing of its data may be deleted by age or size, or compacted, before its configuration was
    changed. `is_internal`: it holds the state of a coordinator.
    """

    name: str
    topic_id: uuid.UUID
    overrides: Mapping[str, str]
    config: TopicConfig
    partitions: list[Partition]
    adopted: bool = False
    is_internal: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.is_internal = self.name in INTERNAL_TOPICS

    def configure(self, config: TopicConfig) -> Generator[None, None, None]:
        """Apply another configuration to every partition, in steps."""
        self.config = config
        for number, partition in enumerate(self.partitions):
            partition.log.configure(config)
            if number % ITEMS_PER_STEP == 0:
                yield


def partition_specs(
    record: TopicImage, config: TopicConfig, first: int = 0
) -> Generator[None, None, list[PartitionSpec]]:
    """Return the partitions of a topic from number `first` on, to be opened; in steps."""
    return each_in_steps(
        range(first, len(record.partitions)),
        lambda index: PartitionSpec(TopicPartition(record.name, index), record.topic_id, config),
    )
