"""What the keys of retention mean for a topic."""

from __future__ import annotations

import pytest

from tests.kernel.config.bundle import BUNDLE, bundle_config
from tests.tables import for_each
from tidelog.kernel.config import TopicConfig, topic_config
from tidelog.kernel.errors import ConfigError, InvalidTopicConfig
from tidelog.plugins.retention.keys import RETENTION_BYTES, RETENTION_MS

DAY_MS = 24 * 3_600_000


@for_each(
    ("settings", "retention_ms"),
    [
        ({}, 7 * DAY_MS),
        ({"log.retention.hours": 1}, 3_600_000),
        ({"log.retention.minutes": 1, "log.retention.hours": 1}, 60_000),
        ({"log.retention.ms": 1, "log.retention.minutes": 1, "log.retention.hours": 1}, 1),
        ({"log.retention.hours": -1}, -1),
        ({"log.retention.minutes": -1, "log.retention.hours": 1}, -1),
        ({"log.retention.ms": -1, "log.retention.minutes": 1}, -1),
    ],
)
def test_the_shortest_unit_that_a_broker_sets_is_that_of_its_topics(
    settings: dict[str, object], retention_ms: int
) -> None:
    assert topic_config(bundle_config(settings), {})[RETENTION_MS] == retention_ms


@for_each(("settings", "size_bytes"), [({}, -1), ({"log.retention.bytes": 7}, 7)])
def test_a_broker_limits_the_size_of_its_topics(settings: dict[str, object], size_bytes: int) -> None:
    assert topic_config(bundle_config(settings), {})[RETENTION_BYTES] == size_bytes


def test_a_topic_without_a_broker_has_what_kafka_has() -> None:
    config = TopicConfig()
    assert (config[RETENTION_MS], config[RETENTION_BYTES]) == (7 * DAY_MS, -1)


@for_each(("name", "least"), [("retention.ms", -1), ("retention.bytes", -(2**63))])
def test_a_topic_takes_what_kafka_takes(name: str, least: int) -> None:
    key = BUNDLE.find(name, "topic")
    assert key is not None
    assert [topic_config(bundle_config(), {name: str(value)})[key] for value in (least, 0)] == [least, 0]
    with pytest.raises(InvalidTopicConfig):
        topic_config(bundle_config(), {name: str(least - 1)})


@for_each(
    "name",
    ["log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.check.interval.ms"],
)
def test_a_broker_refuses_to_keep_nothing(name: str) -> None:
    bundle_config({name: 1})
    with pytest.raises(ConfigError, match="is out of range"):
        bundle_config({name: 0})


def test_all_logs_are_checked_every_five_minutes() -> None:
    key = BUNDLE.find("log.retention.check.interval.ms", "broker")
    assert key is not None
    assert key.default == 300_000


def test_what_may_be_set_while_the_broker_runs_is_what_kafka_lets_be_set() -> None:
    of_retention = [key for key in BUNDLE.of_scope("broker") if key.name.startswith("log.retention.")]
    assert {key.name for key in of_retention if key.dynamic} == {"log.retention.bytes", "log.retention.ms"}
