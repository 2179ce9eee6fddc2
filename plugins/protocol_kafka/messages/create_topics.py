"""CreateTopics (key 19): create topics, or only validate the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import CREATE_TOPICS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class CreatableReplicaAssignment:
    """The replicas of a partition."""

    partition_index: int = int32()
    broker_ids: list[int] = array(INT32)


@struct()
class CreatableTopicConfig:
    """A configuration of the topic."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct()
class CreatableTopic:
    """A topic to create; partitions and replication factor are -1 for the default or with assignments."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@struct(CREATE_TOPICS.versions)
class CreateTopicsRequest:
    """Create topics; with `validate_only`, nothing is changed."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(versions="1+", default=False)


@struct()
class CreatableTopicConfigs:
    """A configuration of the topic, and its source (1 topic, 2 to 4 broker, 5 default, -1 unknown)."""

    name: str = string()
    value: str | None = string(nullable="5+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()


@struct()
class CreatableTopicResult:
    """Result for one topic; `configs` is null when the client is not authorized to see them."""

    name: str = string()
    topic_id: Uuid = uuid(versions="7+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(versions="1+", nullable="0+", default=None, ignorable=True)
    topic_config_error_code: int = int16(versions="5+", tag=0, default=0, ignorable=True)
    num_partitions: int = int32(versions="5+", default=-1, ignorable=True)
    replication_factor: int = int16(versions="5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, versions="5+", nullable="5+", factory=list, ignorable=True
    )


@struct(CREATE_TOPICS.versions)
class CreateTopicsResponse:
    """CreateTopics response."""

    throttle_time_ms: int = int32(versions="2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
