"""AlterConfigs and IncrementalAlterConfigs: a change counts at once, a refused one changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import keys
from tidelog.kernel.errors import MessageTooLarge
from tidelog.kernel.metadata import ALL_BROKERS, ConfigOwner
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_CONFIGS,
    API_VERSIONS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

from .client import Client, framed, versions_of
from .topics import new_topic

Change = tuple[str, int, str | None]
TOPIC_SOURCE, THIS_BROKER_SOURCE, ALL_BROKERS_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5


async def increment(
    client: Client,
    *changes: Change,
    kind: int = TOPIC_RESOURCE,
    name: str = "flights",
    version: int = 1,
    validate_only: bool = False,
) -> Any:
    """The answer for the one resource that is changed."""
    configs = [
        IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = await client.ask(INCREMENTAL_ALTER_CONFIGS, version, request)
    (result,) = answer.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def replace(client: Client, version: int = 2, name: str = "flights", **settings: str | None) -> Any:
    """The answer for the one topic whose configuration is replaced."""
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=configs)
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    (result,) = (await client.ask(ALTER_CONFIGS, version, request)).responses
    return result


async def told(
    client: Client, key: str, kind: int = TOPIC_RESOURCE, name: str = "flights"
) -> tuple[str, int]:
    """Value and source of a key, as DescribeConfigs has them."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    answer = await client.ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource]))
    ((entry,),) = (result.configs for result in answer.results)
    return entry.value, entry.config_source


@pytest.mark.parametrize("version", versions_of(INCREMENTAL_ALTER_CONFIGS))
async def test_incremental_alter_configs_sets_and_deletes_keys_in_every_version(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker, config={"flush.ms": "5"})
    changes = [("max.message.bytes", SET, "1000"), ("flush.ms", DELETE, None)]
    result = await increment(client, *changes, version=version)
    assert (result.error_code, result.error_message) == (0, None)
    assert topic.overrides == {"max.message.bytes": "1000"}
    assert await told(client, "max.message.bytes") == ("1000", TOPIC_SOURCE)
    with pytest.raises(MessageTooLarge):
        topic.partitions[0].log.append_nowait(make_batch([b"x" * 1000]))


@pytest.mark.parametrize("version", versions_of(ALTER_CONFIGS))
async def test_alter_configs_removes_the_keys_that_are_not_named_in_every_version(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker, config={"flush.ms": "5"})
    result = await replace(client, version, max_message_bytes="1000")
    assert result.error_code == 0
    assert topic.overrides == {"max.message.bytes": "1000"}
    assert topic.partitions[0].log.config.max_message_bytes == 1000


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("max.message.bytes", SET, "-1"), ErrorCode.INVALID_CONFIG),
        (("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("max.message.bytes", SET, None), ErrorCode.INVALID_REQUEST),
        (("max.message.bytes", 2, "5"), ErrorCode.INVALID_CONFIG),
        (("max.message.bytes", 9, "5"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_incremental_alter_configs_changes_nothing_when_it_is_refused(
    client: Client, broker: Broker, change: Change, code: ErrorCode
) -> None:
    topic = await new_topic(broker, config={"flush.ms": "5"})
    before = topic.config
    result = await increment(client, ("flush.ms", DELETE, None), change)
    assert result.error_code == code
    assert result.error_message
    assert topic.overrides == {"flush.ms": "5"}
    assert topic.config is before


async def test_incremental_alter_configs_with_validate_only_changes_nothing(
    client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    good = await increment(client, ("flush.ms", SET, "7"), validate_only=True)
    bad = await increment(client, ("flush.ms", SET, "-7"), validate_only=True)
    assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_CONFIG)
    assert topic.overrides == {}


async def test_incremental_alter_configs_of_an_unknown_topic(client: Client) -> None:
    assert (await increment(client)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await increment(client, name="a/b")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await increment(client, kind=99)).error_code == ErrorCode.INVALID_REQUEST


async def test_alter_configs_refuses_a_duplicate_resource(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="flights", configs=[])
    request = AlterConfigsRequest(resources=[resource, resource], validate_only=False)
    answer = await client.ask(ALTER_CONFIGS, 2, request)
    assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("name", "source"), [("1", THIS_BROKER_SOURCE), ("", ALL_BROKERS_SOURCE)], ids=["this broker", "all"]
)
async def test_incremental_alter_configs_of_all_brokers_sets_the_defaults_of_topics(
    client: Client, broker: Broker, name: str, source: int
) -> None:
    topic, own = await new_topic(broker), await new_topic(broker, "own", config={"max.message.bytes": "777"})
    change = ("message.max.bytes", SET, "1000")
    assert (await increment(client, change, kind=BROKER_RESOURCE, name=name)).error_code == 0
    assert topic.partitions[0].log.config.max_message_bytes == 1000
    assert own.partitions[0].log.config.max_message_bytes == 777
    assert (await new_topic(broker, "later")).config[keys.MAX_MESSAGE_BYTES] == 1000
    assert await told(client, "max.message.bytes") == ("1000", source)
    assert await told(client, "message.max.bytes", BROKER_RESOURCE, "1") == ("1000", source)
    undo = ("message.max.bytes", DELETE, None)
    assert (await increment(client, undo, kind=BROKER_RESOURCE, name=name)).error_code == 0
    assert await told(client, "max.message.bytes") == ("1048588", DEFAULT_SOURCE)
    assert topic.partitions[0].log.config.max_message_bytes == 1048588


async def test_incremental_alter_configs_of_this_broker_overrides_that_of_all_brokers(
    client: Client, broker: Broker
) -> None:
    await new_topic(broker)
    for name, value in (("1", "1000"), ("", "2000")):
        await increment(client, ("message.max.bytes", SET, value), kind=BROKER_RESOURCE, name=name)
    assert await told(client, "max.message.bytes") == ("1000", THIS_BROKER_SOURCE)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("num.partitions", SET, "3"), ErrorCode.INVALID_REQUEST),
        (("listeners", SET, "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (("num.io.threads", SET, "none"), ErrorCode.INVALID_REQUEST),
        (("log.cleaner.enable", SET, "false"), ErrorCode.INVALID_REQUEST),
        (("sasl.enabled.mechanisms", SET, "PLAIN"), ErrorCode.INVALID_REQUEST),
        (("message.max.byte", SET, "9"), ErrorCode.INVALID_CONFIG),
        (("message.max.bytes", SET, "many"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_incremental_alter_configs_refuses_read_only_keys_of_the_broker(
    client: Client, broker: Broker, change: Change, code: ErrorCode
) -> None:
    result = await increment(client, change, kind=BROKER_RESOURCE, name="1")
    assert result.error_code == code
    assert change[0] in result.error_message
    assert broker.image.config(ConfigOwner.of_broker(1)) == {}


async def test_incremental_alter_configs_keeps_keys_without_effect_that_tools_alter(
    client: Client, broker: Broker
) -> None:
    changes = [("sasl.kerberos.min.time.before.relogin", SET, "70000"), ("num.io.threads", SET, "9")]
    assert (await increment(client, *changes, kind=BROKER_RESOURCE, name="1")).error_code == 0
    for key, _, value in changes:
        assert await told(client, key, BROKER_RESOURCE, "1") == (value, THIS_BROKER_SOURCE)
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=["num.io.threads"]
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    ((entry,),) = (result.configs for result in (await client.ask(DESCRIBE_CONFIGS, 4, request)).results)
    assert "without effect: one event loop serves every connection" in entry.documentation


async def test_incremental_alter_configs_sets_keys_of_authentication_for_one_broker_only(
    client: Client, broker: Broker
) -> None:
    change = ("sasl.kerberos.min.time.before.relogin", SET, "70000")
    result = await increment(client, change, kind=BROKER_RESOURCE, name="")
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert broker.image.config(ALL_BROKERS) == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("unclean.leader.election.enable", SET, "true"), 0),
        (("leader.replication.throttled.replicas", SET, "0:1,1:1"), 0),
        (("remote.storage.enable", SET, "false"), 0),
        (("remote.storage.enable", SET, "true"), ErrorCode.INVALID_CONFIG),
        (("min.insync.replicas", SET, "2"), 0),
        (("min.insync.replicas", SET, "0"), ErrorCode.INVALID_CONFIG),
        (("leader.replication.throttled.replicas", SET, "*"), 0),
        (("leader.replication.throttled.replicas", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("follower.replication.throttled.replicas", SET, "*,0:1"), ErrorCode.INVALID_CONFIG),
        (("local.retention.ms", SET, "-1"), 0),
        (("local.retention.ms", SET, "-3"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", SET, "delete,delete"), 0),
    ],
)
async def test_incremental_alter_configs_of_a_topic_keeps_what_asks_for_nothing(
    client: Client, broker: Broker, change: Change, code: int
) -> None:
    topic = await new_topic(broker)
    assert (await increment(client, change)).error_code == code
    assert topic.overrides == ({} if code else {change[0]: change[2]})


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("retention.ms", " +0012", "12"),
        ("cleanup.policy", " compact , delete,compact", "compact,delete"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("preallocate", "TRUE", "true"),
        ("compression.type", " gzip", "gzip"),
    ],
)
async def test_describe_configs_of_a_topic_shows_values_in_kafkas_notation(
    client: Client, broker: Broker, name: str, value: str, shown: str
) -> None:
    topic = await new_topic(broker)
    assert (await increment(client, (name, SET, value))).error_code == 0
    assert topic.overrides == {name: value}
    assert (await told(client, name))[0] == shown


async def test_incremental_alter_configs_refuses_another_broker(client: Client) -> None:
    result = await increment(client, kind=BROKER_RESOURCE, name="2")
    assert result.error_code == ErrorCode.INVALID_REQUEST


async def test_incremental_alter_configs_restores_the_static_value_of_a_deleted_key() -> None:
    async with running_broker({"message.max.bytes": 5000}) as broker:
        client = Client(broker)
        await new_topic(broker)
        await increment(client, ("message.max.bytes", SET, "1000"), kind=BROKER_RESOURCE, name="1")
        await increment(client, ("message.max.bytes", DELETE, None), kind=BROKER_RESOURCE, name="1")
        assert await told(client, "max.message.bytes") == ("5000", STATIC_SOURCE)


async def test_incremental_alter_configs_of_connection_limits_takes_effect_immediately() -> None:
    async with running_broker({"max.connections.per.ip": 1}) as broker:
        client = Client(broker)
        host, port = broker.listeners["PLAINTEXT"].rsplit(":", 1)

        async def is_served() -> bool:
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(framed(API_VERSIONS, 0, ApiVersionsRequest()))
                with trio.move_on_after(DEADLINE_S):
                    try:
                        return bool(await stream.receive_some(4))
                    except trio.BrokenResourceError:
                        return False
            return False

        async with await trio.open_tcp_stream(host, int(port)) as first:
            await first.send_all(framed(API_VERSIONS, 0, ApiVersionsRequest()))
            assert await first.receive_some(4)
            served = [await is_served()]
            change = ("max.connections.per.ip", SET, "3")
            assert (await increment(client, change, kind=BROKER_RESOURCE, name="1")).error_code == 0
            served.append(await is_served())
        assert served == [False, True]
