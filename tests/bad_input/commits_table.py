"""Committed offsets: of members that are none, of partitions that are not there, with too much metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

from .case import ALL_VERSIONS, CLOSED, NOTHING, OK, Case, Differs
from .groups_requests import Membership, coordinator_of, joined, new_group
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends
    from .raw_client import RawClient

BAD_GROUP, NOT_FOUND, SUBSCRIBED = "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", "GROUP_SUBSCRIBED_TO_TOPIC"
UNKNOWN_MEMBER, BAD_GENERATION, FENCED = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"
TOO_LARGE, UNKNOWN, UNKNOWN_ID = (
    "OFFSET_METADATA_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
)
WITHOUT_ZOOKEEPER = "what version 0 commits is kept with all other offsets, in Kafka it was in ZooKeeper"
NOBODY = "nobody-at-all"
UNUSED_ID = bytes(15) + b"\x63"
MOST_METADATA = 4096


def offset(partition: int = 0, **fields: Any) -> OffsetCommitRequestPartition:
    """An offset that is fine; `fields` say otherwise."""
    settings: dict[str, Any] = {"committed_offset": 1, "committed_metadata": "", **fields}
    return OffsetCommitRequestPartition(partition_index=partition, **settings)


def _topics(client: RawClient, topic: str | None, *partitions: OffsetCommitRequestPartition) -> Any:
    name = client.topic if topic is None else topic
    return [OffsetCommitRequestTopic(name=name, topic_id=client.topic_id, partitions=list(partitions))]


def _commits(
    *partitions: OffsetCommitRequestPartition, version: int = 8, topic: str | None = None, **fields: Any
) -> Sends:
    """Without being a member of the group."""

    def build(client: RawClient) -> Sent:
        group = new_group()
        coordinator_of(client, group)
        topics = _topics(client, topic, *(partitions or [offset()]))
        values: dict[str, Any] = {"group_id": group, "topics": topics, **fields}
        return ask(apis.OFFSET_COMMIT, version, OffsetCommitRequest(**values))

    return build


def _member_commits(instance: str | None = None, **fields: Any) -> Sends:
    def build(client: RawClient) -> Sent:
        member = joined(client, instance)
        settings: dict[str, Any] = {
            "group_id": member.group,
            "generation_id_or_member_epoch": member.generation,
            "member_id": member.member,
            "group_instance_id": member.instance,
            "topics": _topics(client, None, offset()),
            **fields,
        }
        return ask(apis.OFFSET_COMMIT, 8, OffsetCommitRequest(**settings))

    return build


MEMBERS = (
    Case("commits as nobody", _commits(), OK),
    Case("commits in a generation of no group", _commits(generation_id_or_member_epoch=5), BAD_GENERATION),
    Case("commits as a member of no group", _commits(member_id=NOBODY), OK),
    Case(
        "commits as a member of no group in a generation",
        _commits(member_id=NOBODY, generation_id_or_member_epoch=1),
        BAD_GENERATION,
    ),
    Case("commits as somebody", _member_commits(member_id=NOBODY), UNKNOWN_MEMBER),
    Case("commits in the next generation", _member_commits(generation_id_or_member_epoch=2), BAD_GENERATION),
    Case("commits in generation 0", _member_commits(generation_id_or_member_epoch=0), BAD_GENERATION),
    Case("commits as a foreign static member", _member_commits("a", member_id=NOBODY), FENCED),
    Case("commits as an unknown static member", _member_commits(group_instance_id="b"), UNKNOWN_MEMBER),
    Case(
        "commits past a group's members",
        _member_commits(generation_id_or_member_epoch=-1, member_id=""),
        UNKNOWN_MEMBER,
    ),
    Case("commits to a group without a name", _commits(group_id=""), OK),
)

OFFSETS = (
    Case("commits metadata as long as may be", _commits(offset(committed_metadata="a" * MOST_METADATA)), OK),
    Case(
        "commits metadata that is too long",
        _commits(offset(committed_metadata="a" * (MOST_METADATA + 1)), offset(1)),
        f"{TOO_LARGE},{OK}",
    ),
    Case("commits metadata of two bytes a letter", _commits(offset(committed_metadata="ä" * 2049)), OK),
    Case("commits null for metadata", _commits(offset(committed_metadata=None)), OK),
    Case("commits a negative offset", _commits(offset(committed_offset=-5)), OK),
    Case("commits the largest offset", _commits(offset(committed_offset=2**63 - 1)), OK),
    Case("commits for a topic that is not there", _commits(topic="nowhere"), UNKNOWN),
    Case("commits for a topic with a slash", _commits(topic="a/b"), UNKNOWN),
    Case("commits for partitions that are not there", _commits(offset(9), offset()), f"{UNKNOWN},{OK}"),
    Case("commits for partition -1", _commits(offset(-1)), UNKNOWN),
    Case("commits for a partition twice", _commits(offset(), offset()), f"{OK},{OK}"),
    Case("commits nothing", _commits(topics=[]), NOTHING),
    Case(
        "commits for a topic id that is not there",
        _commits(version=10, topics=[OffsetCommitRequestTopic(topic_id=UNUSED_ID, partitions=[offset()])]),
        UNKNOWN_ID,
    ),
    Case("commits in version 0", _commits(version=0), CLOSED, tidelog=Differs(OK, WITHOUT_ZOOKEEPER)),
    Case("commits in version 1", _commits(version=1), CLOSED, tidelog=Differs(OK, ALL_VERSIONS)),
)


def _fetches(version: int, *topics: str, partition: int = 0, **fields: Any) -> Sends:
    def build(client: RawClient) -> Sent:
        group = new_group()
        coordinator_of(client, group)
        names = topics or [client.topic]
        if version < 8:
            asked = [OffsetFetchRequestTopic(name=name, partition_indexes=[partition]) for name in names]
            old: dict[str, Any] = {"group_id": group, "topics": asked, **fields}
            return ask(apis.OFFSET_FETCH, version, OffsetFetchRequest(**old))
        many = [
            OffsetFetchRequestTopics(name=name, topic_id=UNUSED_ID, partition_indexes=[partition])
            for name in names
        ]
        values: dict[str, Any] = {"group_id": group, "topics": many, **fields}
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(**values)])
        return ask(apis.OFFSET_FETCH, version, request)

    return build


FETCHES = (
    Case("fetches of a group that is not there", _fetches(7), OK),
    Case("fetches of a group without a name", _fetches(7, group_id=""), OK),
    Case("fetches everything of a group without a name", _fetches(8, group_id="", topics=None), OK),
    Case("fetches of a topic that is not there", _fetches(7, "nowhere"), OK),
    Case("fetches of partition -1", _fetches(7, partition=-1), OK),
    Case("fetches as a member of no group", _fetches(9, member_id=NOBODY, member_epoch=1), OK),
    Case("fetches in an epoch of no member", _fetches(9, member_epoch=5), OK),
    Case("fetches of a topic id that is not there", _fetches(10), UNKNOWN_ID),
)


def _deletes(group: str | None = None, topic: str | None = None, partition: int = 0) -> Sends:
    def build(client: RawClient) -> Sent:
        return _deletion(new_group() if group is None else group, topic or client.topic, partition)

    return build


def _deletion(group: str, topic: str, partition: int = 0) -> Sent:
    partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    return ask(apis.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id=group, topics=topics))


def _of_member(client: RawClient, topic: str, *subscribed: str) -> Sent:
    member: Membership = joined(client, None, *subscribed)
    return _deletion(member.group, topic)


DELETIONS = (
    Case("deletes offsets of a group that is not there", _deletes(), NOT_FOUND),
    Case("deletes offsets of a group without a name", _deletes(""), BAD_GROUP),
    Case("deletes offsets of what is being read", lambda s: _of_member(s, s.topic, s.topic), SUBSCRIBED),
    Case("deletes offsets of what is not being read", lambda s: _of_member(s, s.topic, "other"), OK),
    Case(
        "deletes offsets of a topic that is not there", lambda s: _of_member(s, "nowhere", "other"), UNKNOWN
    ),
)

CASES = (*MEMBERS, *OFFSETS, *FETCHES, *DELETIONS)
