"""The typed values of a topic's configuration, and the defaults that broker keys give."""

from __future__ import annotations

import pytest

from tests.kernel.config.bundle import bundle_config
from tidelog.kernel.config import BrokerDefault, Config, ConfigKey, TopicConfig, keys, long
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.storage import keys as segment_keys
from tidelog.plugins.retention.keys import RETENTION_MS
from tidelog.plugins.storage_file import keys as storage_keys

BROKER_DEFAULTS: list[tuple[dict[str, object], ConfigKey[object], object]] = [
    ({"log.segment.bytes": 2_000_000}, segment_keys.SEGMENT_BYTES, 2_000_000),
    ({"log.roll.hours": 2}, segment_keys.SEGMENT_MS, 7_200_000),
    ({"log.retention.hours": 2}, RETENTION_MS, 7_200_000),
    ({"log.retention.hours": -3}, RETENTION_MS, -1),
    ({"log.roll.ms": 5, "log.roll.hours": 2}, segment_keys.SEGMENT_MS, 5),
    ({"log.roll.jitter.hours": 1}, storage_keys.SEGMENT_JITTER_MS, 3_600_000),
    ({"log.roll.jitter.ms": 0, "log.roll.jitter.hours": 1}, storage_keys.SEGMENT_JITTER_MS, 0),
    ({"log.index.size.max.bytes": 64}, segment_keys.SEGMENT_INDEX_BYTES, 64),
    ({"log.index.interval.bytes": 1}, storage_keys.INDEX_INTERVAL_BYTES, 1),
    ({"log.segment.delete.delay.ms": 0}, storage_keys.FILE_DELETE_DELAY_MS, 0),
    ({"log.preallocate": True}, storage_keys.PREALLOCATE, True),
    ({"message.max.bytes": 9}, keys.MAX_MESSAGE_BYTES, 9),
    ({"log.message.timestamp.type": "LogAppendTime"}, keys.MESSAGE_TIMESTAMP_TYPE, "LogAppendTime"),
    ({"log.message.timestamp.before.max.ms": 3}, keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS, 3),
    ({"log.message.timestamp.after.max.ms": 4}, keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS, 4),
]


@pytest.mark.parametrize(("settings", "key", "value"), BROKER_DEFAULTS)
def test_topic_config_has_the_defaults_that_broker_keys_give(
    settings: dict[str, object], key: ConfigKey[object], value: object
) -> None:
    assert bundle_config(settings).default_topic_config[key] == value


def test_topic_config_with_other_values_for_some_keys() -> None:
    config = TopicConfig({"segment.bytes": 700}) | {"segment.ms": 5}
    assert config == TopicConfig({"segment.bytes": 700, "segment.ms": 5})
    assert (config[segment_keys.SEGMENT_BYTES], config[segment_keys.SEGMENT_MS]) == (700, 5)
    assert config[keys.FLUSH_MESSAGES] == LONG_MAX


def test_topic_config_derive_makes_an_object_once_for_each_configuration() -> None:
    config = TopicConfig({"segment.bytes": 700})
    made: list[int] = []

    def make(config: TopicConfig) -> int:
        made.append(config[segment_keys.SEGMENT_BYTES])
        return made[-1]

    assert [config.derive(make), config.derive(make)] == [700, 700]
    assert (config | {"segment.bytes": 5}).derive(make) == 5
    assert made == [700, 5]


def test_a_broker_default_out_of_a_topic_keys_range_is_refused_at_start() -> None:
    wide = ConfigKey(name="pace", type=long(), default=5, documentation="")
    narrow = ConfigKey(
        name="topic.pace",
        type=long(1),
        default=5,
        scope="topic",
        broker_defaults=(BrokerDefault(wide),),
        documentation="",
    )
    with pytest.raises(ConfigError, match=r"topic\.pace, as set by pace, is out of range \(>= 1\)"):
        Config.from_mapping({"pace": 0}, [wide, narrow])
