"""What a log goes by of its topic's configuration."""

from __future__ import annotations

import attrs

from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.plugins.storage_file.log_config import LogConfig


@for_each("field", [field.name for field in attrs.fields(LogConfig) if field.name != "topic_values"])
def test_log_config_takes_each_value_from_its_key(field: str) -> None:
    topic = TopicConfig({field.replace("_", "."): "other"})
    assert attrs.asdict(LogConfig.of(topic), recurse=False) == {
        **attrs.asdict(LogConfig.of(TopicConfig()), recurse=False),
        "topic_values": topic.values,
        field: "other",
    }
