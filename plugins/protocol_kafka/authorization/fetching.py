"""The guard of Fetch, in fetch sessions and outside of them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_kafka.apis.fetch import FINAL_EPOCH, INITIAL_EPOCH
from tidelog.plugins.protocol_kafka.authorization.guarding import Access, narrowed
from tidelog.plugins.protocol_kafka.authorization.topics import MAX_KNOWN, named_topics, split_topics
from tidelog.plugins.protocol_kafka.context import KnownAccess
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.fetch_session import IncrementalFetchSession


def may_fetch(known: KnownAccess, request: FetchRequest) -> bool:
    """Return whether a consumer may read all that it names, outside of sessions or in one that it opens."""
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH) or _is_follower(request):
        return False
    readable = known.readable
    return all((topic.topic or topic.topic_id) in readable for topic in request.topics)


def fetch(access: Access, request: FetchRequest) -> Generator[Any, FetchResponse, FetchResponse]:
    """Need READ on each topic, or CLUSTER_ACTION of a follower.

    A session has no topic that is not allowed: with one a request opens none, and a session that has one,
    since an entry has changed or its client adds it, ends. The client then sends a full request.
    """
    if _is_follower(request) and access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
        return (yield request)
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        session = access.context.fetch_sessions.get(request.session_id)
        if session is not None and (yield from _has_denied(access, request, session)):
            access.context.fetch_sessions.remove(request.session_id)
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        return (yield request)
    if _is_follower(request):
        served, denied = list[Any](), [*request.topics]
    else:
        # Before anything is asked: a topic that is created meanwhile has not been.
        known, named = access.context.known_access, named_topics(access, request.topics, "topic")
        served, denied = yield from split_topics(access, AclOperation.READ, request.topics, "topic")
        if not denied and known is not None and len(named) <= MAX_KNOWN:
            known.readable = named
    if not denied:
        return (yield request)
    refused = [*map(_refused, denied)]
    if not served:
        access.context.fetch_sessions.remove(request.session_id)
        return FetchResponse(responses=refused)
    response = yield narrowed(request, topics=served, session_epoch=FINAL_EPOCH)
    response.responses = [*response.responses, *refused]
    return response


def _refused(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            PartitionData(
                partition_index=each.partition,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                high_watermark=-1,
                aborted_transactions=[],
                records=b"",
            )
            for each in topic.partitions
        ],
    )


def _has_denied(
    access: Access, request: FetchRequest, session: IncrementalFetchSession
) -> Generator[None, Any, bool]:
    """Return whether a session has a topic that may not be read, or would with this request."""
    find = access.context.broker.topics.find_by_id
    asked = [topic.topic_id if session.uses_topic_ids else topic.topic for topic in request.topics]
    # An id that is not known has nothing to read.
    found = (key if isinstance(key, str) else find(key) for key in (*session.topics, *asked))
    names = {topic if isinstance(topic, str) else topic.name for topic in found if topic is not None}
    allowed = yield from access.among(ResourceType.TOPIC, AclOperation.READ, names)
    return len(allowed) < len(names)


def _is_follower(request: FetchRequest) -> bool:
    return max(request.replica_id, request.replica_state.replica_id) >= 0
