"""What a partition goes by of its topic's configuration."""

from __future__ import annotations

import attrs
import pytest

from tidelog.kernel.config import Config, TopicConfig, topic_config
from tidelog.kernel.partition.config import PartitionConfig


def test_partition_config_has_the_defaults_of_a_topic_that_sets_nothing() -> None:
    assert PartitionConfig.of(TopicConfig()) == PartitionConfig()
    assert PartitionConfig.of(Config.from_mapping({}).default_topic_config) == PartitionConfig()


@pytest.mark.parametrize(
    "field", [field.name for field in attrs.fields(PartitionConfig) if field.name != "is_compacted"]
)
def test_partition_config_takes_each_value_from_its_key(field: str) -> None:
    changed = PartitionConfig.of(TopicConfig({field.replace("_", "."): "other"}))
    assert attrs.asdict(changed) == {**attrs.asdict(PartitionConfig()), field: "other"}


@pytest.mark.parametrize(
    ("policy", "compacted"),
    [("delete", False), ("compact", True), ("compact,delete", True), ("delete,compact", True), ("", False)],
)
def test_what_makes_a_topic_compacted(policy: str, compacted: bool) -> None:
    config = Config.from_mapping({})
    assert PartitionConfig.of(topic_config(config, {"cleanup.policy": policy})).is_compacted is compacted
