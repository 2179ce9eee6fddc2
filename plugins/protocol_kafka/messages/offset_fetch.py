"""OffsetFetch (key 9): fetch the committed offsets of groups.

Versions up to 7 have one group, later ones several (KIP-709); version 10 identifies topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import OFFSET_FETCH
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class OffsetFetchRequestTopic:
    """Request for one topic, in versions that know one group."""

    name: str = string(versions="0-7")
    partition_indexes: list[int] = array(INT32, versions="0-7")


@struct()
class OffsetFetchRequestTopics:
    """Request for one topic."""

    name: str = string(versions="8-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int] = array(INT32, versions="8+")


@struct()
class OffsetFetchRequestGroup:
    """Request for one group; null topics means all of them."""

    group_id: str = string(versions="8+")
    member_id: str | None = string(versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32(versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, versions="8+", nullable="8+"
    )


@struct(OFFSET_FETCH.versions)
class OffsetFetchRequest:
    """Request offsets; `require_stable` excludes those with a pending commit of a transaction (KIP-447)."""

    group_id: str = string(versions="0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, versions="0-7", nullable="2-7", factory=list
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, versions="8+", factory=list)
    require_stable: bool = boolean(versions="7+", default=False)


@struct()
class OffsetFetchResponsePartition:
    """Committed offset of one partition, in versions with one group."""

    partition_index: int = int32(versions="0-7")
    committed_offset: int = int64(versions="0-7")
    committed_leader_epoch: int = int32(versions="5-7", default=-1, ignorable=True)
    metadata: str | None = string(versions="0-7", nullable="0-7")
    error_code: int = int16(versions="0-7")


@struct()
class OffsetFetchResponseTopic:
    """Committed offsets of one topic, in versions with one group."""

    name: str = string(versions="0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, versions="0-7")


@struct()
class OffsetFetchResponsePartitions:
    """Committed offset of one partition, -1 without one."""

    partition_index: int = int32(versions="8+")
    committed_offset: int = int64(versions="8+")
    committed_leader_epoch: int = int32(versions="8+", default=-1, ignorable=True)
    metadata: str | None = string(versions="8+", nullable="8+")
    error_code: int = int16(versions="8+")


@struct()
class OffsetFetchResponseTopics:
    """Committed offsets of one topic."""

    name: str = string(versions="8-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, versions="8+")


@struct()
class OffsetFetchResponseGroup:
    """Committed offsets of one group."""

    group_id: str = string(versions="8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, versions="8+")
    error_code: int = int16(versions="8+", default=0)


@struct(OFFSET_FETCH.versions)
class OffsetFetchResponse:
    """OffsetFetch response."""

    throttle_time_ms: int = int32(versions="3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(
        OffsetFetchResponseTopic, versions="0-7", factory=list, ignorable=True
    )
    error_code: int = int16(versions="2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, versions="8+", factory=list)
