"""Metadata, creating and deleting topics: what is asked, who is asked, what is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.client.fakes import (
    ADDRESS,
    ALL_VERSIONS,
    HASTY,
    FakeBroker,
    MemoryDriver,
    metadata_message,
)
from tidelog.plugins.client import (
    ClientSettings,
    ConfigChange,
    CreatedTopic,
    NewTopic,
    RetryPolicy,
    or_raise,
)
from tidelog.plugins.client.cluster import Address, ClusterCache
from tidelog.plugins.client.errors import BrokerClosed, BrokerUnreachable, ErrorResponse, UnknownNode
from tidelog.plugins.client.operations.all_operations import (
    alter_configs,
    create_topics,
    delete_topics,
    describe_configs,
    metadata,
    send_request,
)
from tidelog.plugins.client.steps import Pause, Run, Session
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_CONFIGS
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest

OTHER = Address("broker-2", 9092)
BOTH = {1: ADDRESS, 2: OTHER}
CLOSED = BrokerClosed("broker-1:9092", "CreateTopics v7", "the broker closed it")


def driver(**answers: Any) -> MemoryDriver:
    return MemoryDriver({ADDRESS: FakeBroker({"Metadata": metadata_message({}), **answers})})


def created(name: str = "orders", code: int = 0, message: str | None = None) -> CreateTopicsResponse:
    result = CreatableTopicResult(
        name=name,
        topic_id=bytes(range(16)),
        error_code=code,
        error_message=message,
        num_partitions=3,
        replication_factor=1,
        configs=[CreatableTopicConfigs(name="a.key", value="1", read_only=False, is_sensitive=False)],
    )
    return CreateTopicsResponse(topics=[result])


def deleted(name: str = "orders", code: int = 0) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name, error_code=code)])


def requests(broker: FakeBroker, name: str) -> list[Any]:
    return [asked.message for asked in broker.asked if type(asked.message).__name__ == f"{name}Request"]


def test_metadata_tells_brokers_topics_and_what_is_missing() -> None:
    missing = {"nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    told = driver(Metadata=metadata_message({"orders": [1, -1]}, errors=missing)).run(metadata)
    assert (told.cluster_id, told.controller, told.brokers) == ("a-cluster", 1, {1: ADDRESS})
    assert [part.leader for part in told.topics["orders"].partitions] == [1, -1]
    assert told.topics["orders"].topic_id.bytes == bytes(range(16))
    assert told.topics["orders"].replication_factor == 1
    assert told.errors == missing


def test_metadata_creates_no_topics_unless_create_is_set() -> None:
    memory = driver()
    memory.run(metadata)
    memory.run(metadata, ["a"])
    memory.run(metadata, ["a"], create=True)
    asked = requests(memory.brokers[ADDRESS], "Metadata")
    assert [request.allow_auto_topic_creation for request in asked] == [False, False, True]
    assert [request.topics and request.topics[0].name for request in asked] == [None, "a", "a"]


def test_a_topic_that_is_just_being_created_is_asked_for_again() -> None:
    being_created = metadata_message({}, errors={"orders": ErrorCode.LEADER_NOT_AVAILABLE})
    memory = driver(Metadata=[being_created, being_created, metadata_message({"orders": [1]})])
    assert list(memory.run(metadata, ["orders"], create=True).topics) == ["orders"]
    assert len(memory.pauses) == 2


def test_a_topic_that_never_gets_a_leader_is_given_up() -> None:
    memory = driver(Metadata=metadata_message({}, errors={"orders": ErrorCode.LEADER_NOT_AVAILABLE}))
    with pytest.raises(ErrorResponse, match="'orders': LEADER_NOT_AVAILABLE"):
        memory.run(metadata, ["orders"])
    assert len(memory.pauses) == HASTY.retries


def test_topics_to_be_created_are_waited_for_in_extra_time() -> None:
    """For `max_block_s` to the end, however little time an operation has."""
    policy = RetryPolicy(backoff_s=0.4, max_backoff_s=0.4, jitter=0)
    session = Session(ClientSettings(retry=policy, max_block_s=1), ClusterCache([ADDRESS]), lambda: 0)
    missing = metadata_message({}, errors={"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    pauses: list[Pause] = []
    run = Run(metadata(session, ["orders"], create=True))
    while run.step is not None:
        if isinstance(run.step, Pause):
            pauses.append(run.step)
        run.succeeded([missing])
    assert run.result.errors == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [pause.seconds for pause in pauses] == pytest.approx([0.4, 0.4, 0.2])
    assert [pause.is_extra for pause in pauses] == [True] * 3


def test_a_broker_that_refuses_metadata_as_a_whole_is_told() -> None:
    refusal = metadata_message({})
    refusal.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
    with pytest.raises(ErrorResponse, match="metadata: REBOOTSTRAP_REQUIRED"):
        driver(Metadata=refusal).run(metadata)


def test_create_topics_returns_partitions_and_configs_of_the_created_topic() -> None:
    memory = driver(CreateTopics=created())
    new = NewTopic("orders", 3, 1, {"a.key": "1"})
    outcome = memory.run(create_topics, [new])["orders"]
    assert isinstance(outcome, CreatedTopic)
    assert (outcome.partitions, outcome.replication_factor, outcome.config) == (3, 1, {"a.key": "1"})
    (request,) = requests(memory.brokers[ADDRESS], "CreateTopics")
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", 3, 1)
    assert [(config.name, config.value) for config in topic.configs] == [("a.key", "1")]
    assert not request.validate_only


def test_a_refusal_is_the_topic_s_outcome_and_can_be_raised() -> None:
    memory = driver(CreateTopics=created(code=ErrorCode.TOPIC_ALREADY_EXISTS, message="it is there"))
    outcomes = memory.run(create_topics, [NewTopic("orders")], validate_only=True)
    assert requests(memory.brokers[ADDRESS], "CreateTopics")[0].validate_only
    with pytest.raises(ErrorResponse, match=r"'orders': TOPIC_ALREADY_EXISTS \(it is there\)") as raised:
        or_raise(outcomes)
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert memory.pauses == []


def test_create_topics_reports_a_topic_missing_in_the_response_as_failed() -> None:
    outcomes = driver(CreateTopics=created("another")).run(create_topics, [NewTopic("orders")])
    assert list(outcomes) == ["orders"]
    with pytest.raises(ErrorResponse, match="does not mention it"):
        or_raise(outcomes)


def test_create_topics_retries_only_throttled_topics() -> None:
    put_off = created("b", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    first = CreateTopicsResponse(topics=[*created("a").topics, *put_off.topics])
    memory = driver(CreateTopics=[first, created("b")])
    outcomes = memory.run(create_topics, [NewTopic("a"), NewTopic("b")])
    assert list(or_raise(outcomes)) == ["a", "b"]
    asked = requests(memory.brokers[ADDRESS], "CreateTopics")
    assert [[topic.name for topic in request.topics] for request in asked] == [["a", "b"], ["b"]]


def test_create_topics_looks_up_the_controller_again_after_not_controller() -> None:
    told = metadata_message({}, brokers=BOTH)
    elsewhere = metadata_message({}, brokers=BOTH)
    elsewhere.controller_id = 2
    first = FakeBroker(
        {"Metadata": [told, elsewhere], "CreateTopics": created(code=ErrorCode.NOT_CONTROLLER)}
    )
    second = FakeBroker({"CreateTopics": created()})
    memory = MemoryDriver({ADDRESS: first, OTHER: second})
    or_raise(memory.run(create_topics, [NewTopic("orders")]))
    assert len(second.asked) == 1


def test_any_broker_is_asked_while_the_controller_is_not_known() -> None:
    unknown = metadata_message({})
    unknown.controller_id = -1
    memory = driver(Metadata=unknown, CreateTopics=created())
    or_raise(memory.run(create_topics, [NewTopic("orders")]))
    asked = [type(each.message).__name__ for each in memory.brokers[ADDRESS].asked]
    assert asked == ["MetadataRequest", "CreateTopicsRequest"]


def test_delete_topics_reuses_the_controller_found_by_create_topics() -> None:
    memory = driver(CreateTopics=created(), DeleteTopics=deleted())
    memory.run(create_topics, [NewTopic("orders")])
    memory.run(delete_topics, ["orders"])
    assert len(requests(memory.brokers[ADDRESS], "Metadata")) == 1


def test_a_change_that_may_have_reached_the_broker_is_not_sent_again() -> None:
    memory = driver(CreateTopics=CLOSED, DeleteTopics=CLOSED)
    with pytest.raises(BrokerClosed):
        memory.run(create_topics, [NewTopic("orders")])
    with pytest.raises(BrokerClosed):
        memory.run(delete_topics, ["orders"])
    assert memory.pauses == []


def test_a_change_that_surely_did_not_reach_the_broker_is_sent_again() -> None:
    memory = driver(CreateTopics=[BrokerUnreachable([(ADDRESS, "connection refused")]), created()])
    or_raise(memory.run(create_topics, [NewTopic("orders")]))
    assert len(memory.pauses) == 1


@pytest.mark.parametrize(("newest", "by_state"), [(6, True), (5, False), (1, False)])
def test_delete_topics_uses_the_fields_of_old_and_new_versions(newest: int, by_state: bool) -> None:
    broker = FakeBroker(
        {"Metadata": metadata_message({}), "DeleteTopics": deleted()}, {**ALL_VERSIONS, 20: (0, newest)}
    )
    assert MemoryDriver({ADDRESS: broker}).run(delete_topics, ["orders"]) == {"orders": None}
    (request,) = requests(broker, "DeleteTopics")
    assert [topic.name for topic in request.topics] == (["orders"] if by_state else [])
    assert request.topic_names == ([] if by_state else ["orders"])


def test_delete_topics_does_not_retry_an_unknown_topic() -> None:
    memory = driver(DeleteTopics=deleted(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    outcome = memory.run(delete_topics, ["orders"])["orders"]
    assert isinstance(outcome, ErrorResponse)
    assert memory.pauses == []


def configured(name: str = "orders", code: int = 0, *sources: int) -> DescribeConfigsResponse:
    configs = [
        DescribeConfigsResourceResult(
            name=f"key.{source}", value=str(source), read_only=False, config_source=source, is_sensitive=False
        )
        for source in sources
    ]
    result = DescribeConfigsResult(
        error_code=code, error_message="so it is", resource_type=2, resource_name=name, configs=configs
    )
    return DescribeConfigsResponse(results=[result])


def test_describe_configs_distinguishes_own_from_inherited_configs() -> None:
    memory = driver(DescribeConfigs=configured("orders", 0, 1, 4, 5))
    values = or_raise(memory.run(describe_configs, ["orders"]))["orders"]
    assert [(value.name, value.value, value.is_own) for value in values] == [
        ("key.1", "1", True),
        ("key.4", "4", False),
        ("key.5", "5", False),
    ]
    (request,) = requests(memory.brokers[ADDRESS], "DescribeConfigs")
    assert [(each.resource_type, each.configuration_keys) for each in request.resources] == [(2, None)]


def test_describe_configs_distinguishes_own_configs_of_a_broker_that_states_defaults_only() -> None:
    answer = configured("orders", 0, 1, 5)
    answer.results[0].configs[1].is_default = True
    broker = FakeBroker(
        {"Metadata": metadata_message({}), "DescribeConfigs": answer},
        {**ALL_VERSIONS, DESCRIBE_CONFIGS.key: (0, 0)},
    )
    values = or_raise(MemoryDriver({ADDRESS: broker}).run(describe_configs, ["orders"]))["orders"]
    assert [(value.name, value.is_own) for value in values] == [("key.1", True), ("key.5", False)]


def test_a_configuration_that_is_not_to_be_had_is_the_topic_s_outcome() -> None:
    memory = driver(DescribeConfigs=configured("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    outcomes = memory.run(describe_configs, ["orders", "payments"])
    assert [str(outcome) for outcome in outcomes.values()] == [
        "configuration of topic 'orders': UNKNOWN_TOPIC_OR_PARTITION (so it is)",
        "configuration of topic 'payments': UNKNOWN_SERVER_ERROR (the broker's answer does not mention it)",
    ]


def altered(name: str = "orders", code: int = 0) -> IncrementalAlterConfigsResponse:
    result = IncrementalAlterConfigsResourceResponse(
        error_code=code, error_message="so it is", resource_type=2, resource_name=name
    )
    return IncrementalAlterConfigsResponse(responses=[result])


def test_alter_configs_sends_each_change_with_its_operation() -> None:
    memory = driver(IncrementalAlterConfigs=altered())
    changes = [
        ConfigChange("retention.ms", "1000"),
        ConfigChange("segment.bytes", operation="delete"),
        ConfigChange("cleanup.policy", "compact", "append"),
        ConfigChange("cleanup.policy", "delete", "subtract"),
    ]
    assert memory.run(alter_configs, {"orders": changes}) == {"orders": None}
    (request,) = requests(memory.brokers[ADDRESS], "IncrementalAlterConfigs")
    (resource,) = request.resources
    assert (request.validate_only, resource.resource_type, resource.resource_name) == (False, 2, "orders")
    assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
        ("retention.ms", 0, "1000"),
        ("segment.bytes", 1, None),
        ("cleanup.policy", 2, "compact"),
        ("cleanup.policy", 3, "delete"),
    ]


def test_alter_configs_returns_each_topic_s_outcome_and_may_only_validate() -> None:
    memory = driver(IncrementalAlterConfigs=[CLOSED, altered("orders", ErrorCode.INVALID_CONFIG)])
    change = [ConfigChange("retention.ms", "x", "set")]
    outcomes = memory.run(alter_configs, {"orders": change, "payments": change}, validate_only=True)
    assert [str(outcome) for outcome in outcomes.values()] == [
        "configuration of topic 'orders': INVALID_CONFIG (so it is)",
        "configuration of topic 'payments': UNKNOWN_SERVER_ERROR (the broker's answer does not mention it)",
    ]
    asked = requests(memory.brokers[ADDRESS], "IncrementalAlterConfigs")
    assert [request.validate_only for request in asked] == [True, True]


def test_a_broker_by_its_node_id_is_found_through_metadata() -> None:
    told = metadata_message({}, brokers=BOTH)
    second = FakeBroker({"Metadata": told})
    memory = MemoryDriver({ADDRESS: FakeBroker({"Metadata": told}), OTHER: second})
    memory.run(send_request, MetadataRequest(topics=[]), node=2)
    assert len(second.asked) == 1
    with pytest.raises(UnknownNode, match="no broker 7"):
        memory.run(send_request, MetadataRequest(topics=[]), node=7)


def test_retry_policy_pauses_double_up_to_max_backoff_with_jitter() -> None:
    steady = RetryPolicy(retries=6, backoff_s=0.1, max_backoff_s=1.0, jitter=0.0)
    assert list(steady.pauses()) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    jittery = [next(RetryPolicy(jitter=0.2).pauses()) for _ in range(50)]
    assert all(0.08 <= pause <= 0.12 for pause in jittery)
    assert len(set(jittery)) > 1
