"""Interceptors that are asked before topics are created, changed and deleted."""

from __future__ import annotations

import pytest

from tests.plugins.protocol_kafka.apis.client import Client
from tests.plugins.protocol_kafka.interception.scripted import BY_NAME, intercepting_broker
from tidelog.kernel.errors import PluginError, PolicyViolation
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.interceptors import (
    Change,
    Interceptor,
    PartitionsCreation,
    TopicConfigChange,
    TopicCreation,
    TopicDeletion,
)
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
)
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

MODULE = "tests.plugins.protocol_kafka.interception.scripted"
REFUSED = ErrorCode.POLICY_VIOLATION
TOPIC_RESOURCE = 2
SET = 0


class Strict(Interceptor):
    """Allows up to three partitions and a retention of a day, and nothing to be deleted."""

    def __init__(self) -> None:
        self.asked: list[Change] = []

    def before_change(self, change: Change) -> None:
        self.asked.append(change)
        match change:
            case TopicCreation(_, partitions) | PartitionsCreation(_, partitions) if partitions > 3:
                raise PolicyViolation(f"{partitions} partitions are more than 3")
            case TopicConfigChange(_, _, after) if int(after.get("retention.ms", 0)) > 86_400_000:
                raise PolicyViolation("records are kept for a day at most")
            case TopicDeletion():
                raise PolicyViolation("nothing is deleted")
            case _:
                pass


def creation(validate_only: bool = False, **partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
            )
            for name, count in partitions.items()
        ],
        timeout_ms=1000,
        validate_only=validate_only,
    )


async def test_each_api_asks_about_its_changes_and_serves_the_rest_of_the_request() -> None:
    strict = Strict()
    async with intercepting_broker(it=strict) as broker:
        client = Client(broker)
        created = await client.ask(CREATE_TOPICS, 7, creation(few=3, many=4))
        assert {each.name: each.error_code for each in created.topics} == {"few": 0, "many": REFUSED}
        assert {each.name: each.error_message for each in created.topics}[
            "many"
        ] == "4 partitions are more than 3"
        assert strict.asked[0] == TopicCreation("few", 3, 1, {"retention.ms": "1000"})
        validated = await client.ask(CREATE_TOPICS, 7, creation(validate_only=True, other=4))
        assert [each.error_code for each in validated.topics] == [REFUSED]
        grown = await client.ask(
            CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="few", count=5, assignments=None)],
                timeout_ms=1,
                validate_only=False,
            ),
        )
        assert [each.error_code for each in grown.results] == [REFUSED]
        deleted = await client.ask(
            DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["few"], timeout_ms=1000)
        )
        assert [each.error_code for each in deleted.responses] == [REFUSED]
        assert len(broker.topics.get("few").partitions) == 3
        strict.asked.clear()
        altered = await client.ask(
            INCREMENTAL_ALTER_CONFIGS,
            1,
            IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(
                        resource_type=TOPIC_RESOURCE,
                        resource_name="few",
                        configs=[
                            IncrementalAlterableConfig(
                                name="retention.ms", config_operation=SET, value="99999999999"
                            )
                        ],
                    )
                ],
                validate_only=False,
            ),
        )
        assert [each.error_code for each in altered.responses] == [REFUSED]
        assert strict.asked == [
            TopicConfigChange("few", {"retention.ms": "1000"}, {"retention.ms": "99999999999"})
        ]
        replaced = await client.ask(
            ALTER_CONFIGS,
            1,
            AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=TOPIC_RESOURCE,
                        resource_name="few",
                        configs=[AlterableConfig(name="retention.ms", value="5000")],
                    )
                ],
                validate_only=False,
            ),
        )
        assert [each.error_code for each in replaced.responses] == [0]
        assert broker.topics.get("few").overrides == {"retention.ms": "5000"}


async def test_topics_that_create_themselves_are_asked_about_but_not_the_brokers_own() -> None:
    strict = Strict()
    async with intercepting_broker({"num.partitions": 2}, it=strict) as broker:
        await broker.topics.ensure("by-itself")
        await broker.topics.ensure("__consumer_offsets")
        assert strict.asked == [TopicCreation("by-itself", -1, -1, {})]


async def test_a_pattern_limits_the_topics_whose_changes_are_asked_about() -> None:
    strict = Strict()
    async with intercepting_broker({"interceptors.it.topics.regex": "s.*"}, it=strict) as broker:
        await broker.topics.create(TopicSpec("many", 9))
        with pytest.raises(PolicyViolation):
            await broker.topics.create(TopicSpec("strict", 9))


@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        ("create.topic.policy.class.name", {TopicCreation}),
        ("alter.config.policy.class.name", {TopicConfigChange}),
    ],
)
async def test_the_keys_of_kafka_name_a_kind_that_is_asked_about_one_change(
    key: str, kinds: set[type]
) -> None:
    strict = Strict()
    BY_NAME["scripted"] = strict
    try:
        async with running_broker({"plugins": MODULE, key: "scripted"}) as broker:
            await broker.topics.create(TopicSpec("few"))
            await broker.topics.alter_config("few", lambda before: {"retention.ms": "1"})
            await broker.topics.delete("few")
            assert {type(each) for each in strict.asked} == kinds
            assert broker.interception is None
    finally:
        del BY_NAME["scripted"]


async def test_a_kind_that_nothing_offers_stops_the_start() -> None:
    with pytest.raises(PluginError, match=r"no interceptor named 'com\.example\.Policy'"):
        async with running_broker({"create.topic.policy.class.name": "com.example.Policy"}):
            pass


@pytest.mark.parametrize("rule", ["fail", "pass"])
async def test_a_policy_that_fails_refuses_or_is_passed_over(
    rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Interceptor):
        def before_change(self, change: Change) -> None:
            raise ZeroDivisionError

    async with intercepting_broker({"interceptors.it.on.failure": rule}, it=Failing()) as broker:
        client = Client(broker)
        created = await client.ask(CREATE_TOPICS, 7, creation(few=1))
        assert created.topics[0].error_code == (0 if rule == "pass" else ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "the interceptor it failed with ZeroDivisionError" in caplog.text
