"""DescribeConfigs: values with their sources, of topics and of the broker, all of them or some."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from tests.kernel.config.bundle import bundle_config
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import Config, ConfigKey, nullable, password
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.describe_configs import TopicConfigEntry, topic_config_entries
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_CONFIGS
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import new_topic

OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5
SETTINGS = {"message.max.bytes": 5000, "num.partitions": 3, "node.id": 1}


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A broker with settings of its own, and a topic with others."""
    async with running_broker(SETTINGS) as broker:
        await new_topic(broker, config={"segment.bytes": "2000000", "max.message.bytes": "4000"})
        await new_topic(broker, "plain")
        yield broker


def request(
    kind: int, name: str, names: Sequence[str] | None = None, **include: bool
) -> DescribeConfigsRequest:
    """Ask for one resource."""
    keys = None if names is None else list(names)
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], **include)


def only(response: Any) -> DescribeConfigsResult:
    """The only resource of an answer."""
    (result,) = response.results
    assert isinstance(result, DescribeConfigsResult)
    return result


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    """Its keys."""
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS))
async def test_describe_configs_of_a_topic(client: Client, version: int) -> None:
    result = only(await client.ask(DESCRIBE_CONFIGS, version, request(TOPIC_RESOURCE, "flights")))
    assert (result.error_code, result.error_message) == (0, "")
    assert (result.resource_type, result.resource_name) == (TOPIC_RESOURCE, "flights")
    configs = by_name(result)
    found = {
        name: (configs[name].value, configs[name].config_source, configs[name].is_default)
        for name in ("segment.bytes", "max.message.bytes", "segment.ms")
    }
    if version == 0:
        assert found == {
            "segment.bytes": ("2000000", -1, False),
            "max.message.bytes": ("4000", -1, False),
            "segment.ms": ("604800000", -1, True),
        }
    else:
        assert found == {
            "segment.bytes": ("2000000", OF_TOPIC, False),
            "max.message.bytes": ("4000", OF_TOPIC, False),
            "segment.ms": ("604800000", DEFAULT, False),
        }
    assert not any(config.is_sensitive for config in result.configs)


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS, 1))
async def test_describe_configs_of_a_topic_with_defaults_of_the_broker(client: Client, version: int) -> None:
    result = only(await client.ask(DESCRIBE_CONFIGS, version, request(TOPIC_RESOURCE, "plain")))
    config = by_name(result)["max.message.bytes"]
    assert (config.value, config.config_source) == ("5000", OF_BROKER)


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS))
async def test_describe_configs_of_the_broker(client: Client, version: int) -> None:
    result = only(await client.ask(DESCRIBE_CONFIGS, version, request(BROKER_RESOURCE, "1")))
    assert result.error_code == 0
    configs = by_name(result)
    assert configs["num.partitions"].value == "3"
    assert configs["message.max.bytes"].value == "5000"
    if version >= 1:
        assert configs["num.partitions"].config_source == OF_BROKER
        assert configs["log.segment.bytes"].config_source == DEFAULT


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS))
@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["segment.ms"], {"segment.ms"}),
        (["segment.ms", "segment.bytes"], {"segment.ms", "segment.bytes"}),
        (["no.such.key"], set[str]()),
    ],
)
async def test_describe_configs_of_some_keys(
    client: Client, version: int, names: list[str], found: set[str]
) -> None:
    asked = request(TOPIC_RESOURCE, "flights", names)
    result = only(await client.ask(DESCRIBE_CONFIGS, version, asked))
    assert (result.error_code, set(by_name(result))) == (0, found)


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS))
async def test_describe_configs_without_keys_returns_all(client: Client, version: int) -> None:
    """So it is in Kafka, whether the list is null or empty."""
    null = only(await client.ask(DESCRIBE_CONFIGS, version, request(TOPIC_RESOURCE, "flights")))
    empty = only(await client.ask(DESCRIBE_CONFIGS, version, request(TOPIC_RESOURCE, "flights", [])))
    assert set(by_name(empty)) == set(by_name(null)) != set()


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS, 1))
async def test_describe_configs_returns_synonyms_on_request(client: Client, version: int) -> None:
    for include in (False, True):
        asked = request(TOPIC_RESOURCE, "flights", ["max.message.bytes"], include_synonyms=include)
        (config,) = only(await client.ask(DESCRIBE_CONFIGS, version, asked)).configs
        synonyms = [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]
        assert synonyms == (
            [
                ("max.message.bytes", "4000", OF_TOPIC),
                ("message.max.bytes", "5000", OF_BROKER),
                ("message.max.bytes", "1048588", DEFAULT),
            ]
            if include
            else []
        )


async def test_describe_configs_of_all_brokers_has_what_is_set_for_them(
    client: Client, broker: Broker
) -> None:
    await broker.controller.alter_broker_config(None, lambda _: {"message.max.bytes": "6000"})
    await broker.controller.alter_broker_config(
        1, lambda _: {"message.max.bytes": "7000", "num.io.threads": "9"}
    )
    asked = request(BROKER_RESOURCE, "", include_synonyms=True)
    (config,) = only(await client.ask(DESCRIBE_CONFIGS, 4, asked)).configs
    assert (config.name, config.value, config.config_source) == ("message.max.bytes", "6000", 3)
    assert [(synonym.value, synonym.source) for synonym in config.synonyms] == [("6000", 3)]


@pytest.mark.parametrize(
    ("settings", "synonyms"),
    [
        ({}, []),
        ({"log.roll.hours": 1}, [("log.roll.hours", "1", OF_BROKER)]),
        ({"log.roll.ms": 5}, [("log.roll.ms", "5", OF_BROKER)]),
    ],
)
async def test_describe_configs_has_synonyms_in_the_unit_of_the_broker_key(
    settings: dict[str, object], synonyms: list[tuple[str, str, int]]
) -> None:
    async with running_broker(settings) as broker:
        await new_topic(broker)
        asked = request(TOPIC_RESOURCE, "flights", ["segment.ms"], include_synonyms=True)
        (config,) = only(await Client(broker).ask(DESCRIBE_CONFIGS, 4, asked)).configs
        assert [(each.name, each.value, each.source) for each in config.synonyms] == synonyms


async def test_describe_configs_omits_a_missing_default_from_the_synonyms(client: Client) -> None:
    """As Apache Kafka 4.4.0 answers for its keys whose default is null."""
    asked = request(BROKER_RESOURCE, "1", ["log.retention.minutes", "listeners"], include_synonyms=True)
    configs = by_name(only(await client.ask(DESCRIBE_CONFIGS, 4, asked)))
    assert (configs["log.retention.minutes"].value, configs["log.retention.minutes"].synonyms) == (None, [])
    assert configs["listeners"].synonyms


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS, 3))
async def test_describe_configs_returns_documentation_on_request(client: Client, version: int) -> None:
    for include in (False, True):
        asked = request(TOPIC_RESOURCE, "flights", ["segment.bytes"], include_documentation=include)
        (config,) = only(await client.ask(DESCRIBE_CONFIGS, version, asked)).configs
        assert bool(config.documentation) == include
        assert config.config_type == 3


UNKNOWN: dict[str, tuple[int, str, ErrorCode]] = {
    "a topic": (TOPIC_RESOURCE, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "a topic that cannot be": (TOPIC_RESOURCE, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    "another broker": (BROKER_RESOURCE, "2", ErrorCode.INVALID_REQUEST),
    "no broker": (BROKER_RESOURCE, "x", ErrorCode.INVALID_REQUEST),
    "another kind": (3, "group", ErrorCode.INVALID_REQUEST),
    "no kind": (-1, "flights", ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CONFIGS))
@pytest.mark.parametrize(("kind", "name", "code"), UNKNOWN.values(), ids=UNKNOWN)
async def test_describe_configs_of_unknown_resources(
    client: Client, version: int, kind: int, name: str, code: ErrorCode
) -> None:
    asked = request(kind, name)
    asked.resources.extend(request(TOPIC_RESOURCE, "flights").resources)
    response = await client.ask(DESCRIBE_CONFIGS, version, asked)
    unknown, known = response.results
    assert (unknown.error_code, unknown.resource_name, unknown.configs) == (code, name, [])
    assert unknown.error_message
    assert known.error_code == 0


def test_topic_config_entries_have_the_source_of_each_value() -> None:
    config = bundle_config({"log.roll.hours": 1, "message.max.bytes": 77})
    entries = {entry.name: entry for entry in topic_config_entries(config, {"preallocate": "true"})}
    assert entries["preallocate"] == TopicConfigEntry("preallocate", "true", "topic")
    assert entries["segment.ms"] == TopicConfigEntry("segment.ms", "3600000", "broker", "log.roll.hours")
    assert entries["max.message.bytes"] == TopicConfigEntry(
        "max.message.bytes", "77", "broker", "message.max.bytes"
    )
    assert entries["segment.bytes"] == TopicConfigEntry("segment.bytes", "1073741824", "default")


SECRET = ConfigKey(name="secret", type=nullable(password()), default=None, scope="topic", documentation="")


def test_topic_config_entries_have_no_secret() -> None:
    config = Config.from_mapping({}, [SECRET])
    (entry,) = [
        entry for entry in topic_config_entries(config, {"secret": "hunter2"}) if entry.name == "secret"
    ]
    assert entry == TopicConfigEntry("secret", None, "topic", secret=True)
