"""DeleteTopics (key 20): delete topics, by name, or from version 6 on by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import DELETE_TOPICS
from tidelog.plugins.schema.declare import array, int16, int32, string, struct, uuid
from tidelog.plugins.schema.types import STRING, ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class DeleteTopicState:
    """A topic by name, or by id when the name is null."""

    name: str | None = string(nullable="6+", default=None)
    topic_id: Uuid = uuid(default=ZERO_UUID)


@struct(DELETE_TOPICS.versions)
class DeleteTopicsRequest:
    """Delete `topics` (version 6) or `topic_names` (before)."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+", factory=list)
    topic_names: list[str] = array(STRING, versions="0-5", factory=list, ignorable=True)
    timeout_ms: int = int32()


@struct()
class DeletableTopicResult:
    """Result for one topic; its name is null when it was given by an unknown id."""

    name: str | None = string(nullable="6+")
    topic_id: Uuid = uuid(versions="6+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)


@struct(DELETE_TOPICS.versions)
class DeleteTopicsResponse:
    """DeleteTopics response."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
