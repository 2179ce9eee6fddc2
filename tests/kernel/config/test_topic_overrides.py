"""A topic's configuration: its own settings over the broker's defaults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.config.bundle import BUNDLE, bundle_config
from tests.tables import for_each
from tidelog.kernel.config import (
    Config,
    ConfigKey,
    TopicConfig,
    check_conflicts,
    checked_topic_config,
    comma_list,
    double,
    long,
    nullable,
    topic_config,
)
from tidelog.kernel.errors import InvalidTopicConfig
from tidelog.kernel.seams.storage import keys as segment_keys
from tidelog.plugins.protocol_kafka.apis.describe_configs import TopicConfigEntry, topic_config_entries
from tidelog.plugins.storage_file import keys as storage_keys


def values_of(config: TopicConfig) -> dict[str, object]:
    """The value of every topic key."""
    return {key.name: config[key] for key in BUNDLE.of_scope("topic")}


def test_topic_config_without_overrides_has_kafkas_defaults() -> None:
    config = bundle_config()
    assert values_of(topic_config(config, {})) == values_of(TopicConfig())
    assert topic_config(config, {}) is topic_config(config, {})
    assert TopicConfig()[segment_keys.SEGMENT_MS] == 7 * 24 * 3600 * 1000


def test_topic_config_prefers_overrides_to_broker_defaults() -> None:
    config = bundle_config({"log.segment.bytes": 2_000_000})
    topic = topic_config(config, {"segment.bytes": "3000000", "preallocate": "TRUE"})
    assert (topic[segment_keys.SEGMENT_BYTES], topic[storage_keys.PREALLOCATE]) == (3_000_000, True)


PROBLEMS: list[tuple[str, str | None, str]] = [
    ("segment.byte", "1", "Unknown topic config name: segment.byte (did you mean segment.bytes?)"),
    ("zzz", "1", "Unknown topic config name: zzz"),
    ("segment.bytes", "14", "segment.bytes = '14': is out of range (>= 1048576)"),
    ("segment.ms", "soon", "segment.ms = 'soon': is not a whole number (long)"),
    ("message.timestamp.type", "Now", "message.timestamp.type = 'Now': is none of CreateTime, LogAppendTime"),
    ("segment.ms", None, "segment.ms: has no value"),
    ("retention.ms", "-2", "retention.ms = '-2': is out of range (>= -1)"),
    ("cleanup.policy", "burn", "cleanup.policy = 'burn': has 'burn', but may have any of compact, delete"),
    (
        "remote.storage.enable",
        "true",
        "remote.storage.enable = 'true': is a Kafka key that this broker has no part for (tiered storage)",
    ),
    ("log.segment.bytes", "1", "Unknown topic config name: log.segment.bytes (did you mean segment.bytes?)"),
]


@for_each(("name", "text", "sentence"), PROBLEMS)
def test_topic_config_refuses_an_invalid_override(name: str, text: str | None, sentence: str) -> None:
    with pytest.raises(InvalidTopicConfig) as caught:
        topic_config(bundle_config(), {name: text})
    assert sentence in str(caught.value)


LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")


@pytest.mark.parametrize(
    ("settings", "broker", "conflict"),
    [
        ({LAGS[0]: "6", LAGS[1]: "5"}, {}, "min.compaction.lag.ms (6) > max.compaction.lag.ms (5)"),
        ({LAGS[0]: "5", LAGS[1]: "5"}, {}, ""),
        ({LAGS[0]: str(2**63 - 1)}, {}, ""),
        (
            {LAGS[0]: "6"},
            {f"log.cleaner.{LAGS[1]}": 5},
            "min.compaction.lag.ms (6) > max.compaction.lag.ms (5)",
        ),
        (
            {LAGS[1]: "5"},
            {f"log.cleaner.{LAGS[0]}": 6},
            "min.compaction.lag.ms (6) > max.compaction.lag.ms (5)",
        ),
        ({"segment.ms": "5"}, {f"log.cleaner.{LAGS[1]}": 5, f"log.cleaner.{LAGS[0]}": 6}, ""),
        ({}, {f"log.cleaner.{LAGS[1]}": 5, f"log.cleaner.{LAGS[0]}": 6}, ""),
    ],
)
def test_check_conflicts_of_the_least_and_the_largest_lag(
    settings: dict[str, str], broker: dict[str, object], conflict: str
) -> None:
    """Conflicts of the broker's defaults are no fault of a topic that sets neither."""
    config = bundle_config(broker)
    topic = topic_config(config, settings)
    if not conflict:
        check_conflicts(config, topic, settings)
        return
    with pytest.raises(InvalidTopicConfig) as caught:
        check_conflicts(config, topic, settings)
    assert str(caught.value).startswith(f"conflict topic config setting {conflict}: ")


def test_topic_config_reports_all_invalid_overrides_at_once() -> None:
    with pytest.raises(InvalidTopicConfig) as caught:
        topic_config(bundle_config(), {"segment.byte": "1", "preallocate": "si"})
    assert "segment.byte" in str(caught.value)
    assert "preallocate" in str(caught.value)


def test_topic_config_accepts_a_neutral_value_of_an_unsupported_kafka_key() -> None:
    config = bundle_config()
    overrides = {
        "local.retention.ms": "-2",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
    }
    assert topic_config(config, overrides) == topic_config(config, {})
    listed = {entry.name: entry for entry in topic_config_entries(config, overrides)}
    assert listed["local.retention.ms"] == TopicConfigEntry("local.retention.ms", "-2", "topic")


def test_checked_topic_config_skips_a_key_of_a_missing_plugin() -> None:
    config = bundle_config()
    topic, problems = checked_topic_config(config, {"strange.key": "1", "segment.bytes": "2000000"})
    assert topic[segment_keys.SEGMENT_BYTES] == 2_000_000
    assert problems == ["Unknown topic config name: strange.key"]


RATIO = ConfigKey(name="dirty.ratio", type=double(0, 1), default=0.5, scope="topic", documentation="")
POLICY = ConfigKey(name="policy", type=comma_list("a", "b"), default=("a",), scope="topic", documentation="")
LIMIT = ConfigKey(name="limit", type=nullable(long()), default=None, scope="topic", documentation="")


def test_topic_config_types_keys_of_plugins_like_those_of_the_kernel() -> None:
    config = Config.from_mapping({}, [RATIO, POLICY, LIMIT])
    topic = topic_config(config, {"policy": "b,a"})
    ratio: float = topic[RATIO]
    policy: tuple[str, ...] = topic[POLICY]
    assert (ratio, policy, topic[LIMIT]) == (0.5, ("b", "a"), None)
    assert TopicConfig()[RATIO] == 0.5
    entries = {entry.name: entry.value for entry in topic_config_entries(config, {"policy": "b,a"})}
    assert (entries["dirty.ratio"], entries["policy"], entries["limit"]) == ("0.5", "b,a", "")


names = st.text() | st.sampled_from(
    ["segment.bytes", "segment.ms", "preallocate", "retention.ms", "flush.ms"]
)


@given(st.dictionaries(names, st.text() | st.none() | st.integers().map(str)))
def test_checked_topic_config_never_raises_for_any_overrides(
    overrides: dict[str, str | None],
) -> None:
    config = bundle_config()
    _, problems = checked_topic_config(config, overrides)
    assert all(problems)
    if problems:
        with pytest.raises(InvalidTopicConfig):
            topic_config(config, overrides)
    else:
        assert {entry.name for entry in topic_config_entries(config, overrides)} >= set(overrides)
