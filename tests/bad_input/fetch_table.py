"""Fetches of what is not there, of odd sizes, and of sessions that nobody opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.fetch import FetchReplicaState, FetchRequest

from .case import ALL_VERSIONS, CLOSED, KAFKA_STUMBLES, NOTHING, OK, Case, Differs
from .raw_client import RawClient, fetch
from .requests import Sent, ask

if TYPE_CHECKING:
    from typing import Any

    from .case import Sends

MOST = 0x7FFFFFFF
OUT_OF_RANGE, UNKNOWN = "OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION"
NO_SUCH_SESSION = "FETCH_SESSION_ID_NOT_FOUND"
SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
AS_LITTLE_AS_CAN_BE = Differs(OK, "as with 0 bytes, one batch comes all the same")
NO_REPLICAS = Differs(OK, "there are no replicas to tell from consumers: every reader is served as one")


def _sends(offset: int = 0, version: int = 11, **fields: Any) -> Sends:
    return lambda client: ask(apis.FETCH, version, fetch(client.topic, offset, **fields))


def _from(topic: str) -> Sends:
    return lambda _: ask(apis.FETCH, 11, fetch(topic, 0))


def _by_id(topic_id: bytes | None, version: int = 13, **fields: Any) -> Sends:
    def build(client: RawClient) -> Sent:
        chosen = client.topic_id if topic_id is None else topic_id
        return ask(apis.FETCH, version, fetch("", 0, topic_id=chosen, **fields))

    return build


def _behind_the_end(by: int, **fields: Any) -> Sends:
    return lambda client: ask(apis.FETCH, 11, fetch(client.topic, client.end_offset() + by, **fields))


def _of_nothing(**fields: Any) -> Sends:
    return lambda _: ask(apis.FETCH, 11, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], **fields))


def _partition_twice(client: RawClient) -> Sent:
    request = fetch(client.topic, 0)
    request.topics[0].partitions *= 2
    return ask(apis.FETCH, 11, request)


def _topic_twice(client: RawClient) -> Sent:
    request = fetch(client.topic, 0)
    request.topics *= 2
    return ask(apis.FETCH, 11, request)


OFFSETS = (
    Case("the log end", _behind_the_end(0), OK),
    Case("one beyond the log end", _behind_the_end(1), OUT_OF_RANGE),
    Case("far beyond the log end", _sends(1 << 62), OUT_OF_RANGE),
    Case("offset -1", _sends(-1), OUT_OF_RANGE),
    Case("offset -2^63", _sends(-(1 << 63)), OUT_OF_RANGE),
    Case("a leader epoch that is to come", _sends(current_leader_epoch=99), "UNKNOWN_LEADER_EPOCH"),
)

SIZES = (
    Case("no bytes at most", _sends(max_bytes=0), OK),
    Case("-1 bytes at most", _sends(max_bytes=-1), SERVER_ERROR, tidelog=AS_LITTLE_AS_CAN_BE),
    Case("-2^31 bytes at most", _sends(max_bytes=-MOST - 1), SERVER_ERROR, tidelog=AS_LITTLE_AS_CAN_BE),
    Case("2^31-1 bytes at most", _sends(max_bytes=MOST, partition_max_bytes=MOST), OK),
    Case("no bytes of the partition", _sends(partition_max_bytes=0), OK),
    Case(
        "-1 bytes of the partition", _sends(partition_max_bytes=-1), SERVER_ERROR, tidelog=AS_LITTLE_AS_CAN_BE
    ),
    Case("-5 bytes at least", _sends(min_bytes=-5), OK),
    Case("2^31-1 bytes at least", _sends(min_bytes=MOST, max_wait_ms=50), OK),
    Case("a negative wait", _behind_the_end(0, max_wait_ms=-1, min_bytes=1), OK),
)

TARGETS = (
    Case("a topic that is not there", _from("nowhere"), UNKNOWN),
    Case("a topic name with a slash", _from("a/b"), UNKNOWN),
    Case("a partition that is not there", _sends(partition=99), UNKNOWN),
    Case("a negative partition", _sends(partition=-1), UNKNOWN),
    Case("a topic id that is not there", _by_id(bytes(range(16))), "UNKNOWN_TOPIC_ID"),
    Case("the zero topic id", _by_id(bytes(16)), "UNKNOWN_TOPIC_ID"),
    Case("a partition that is not there, by topic id", _by_id(None, partition=9), UNKNOWN),
    Case("a partition twice", _partition_twice, OK),
    Case("a topic twice", _topic_twice, OK),
    Case("nothing", _of_nothing(), NOTHING),
)

SESSIONS = (
    Case("a session that nobody opened", _sends(session_id=7, session_epoch=1), NO_SUCH_SESSION),
    Case("a negative session", _sends(session_id=-7, session_epoch=1), NO_SUCH_SESSION),
    Case("no session, but an epoch of one", _sends(session_id=0, session_epoch=5), NO_SUCH_SESSION),
    Case(
        "nothing in a session that nobody opened", _of_nothing(session_id=7, session_epoch=1), NO_SUCH_SESSION
    ),
    Case("an end of a session that nobody opened", _sends(session_id=7, session_epoch=-1), OK),
    Case("a session that is to replace another", _sends(session_id=7, session_epoch=0), OK),
    Case("nothing at the end of a session", _of_nothing(session_id=7, session_epoch=-1), NOTHING),
)

READERS = (
    *(
        Case(
            f"isolation level {level}",
            _sends(isolation_level=level),
            SERVER_ERROR,
            log=f"isolation level {level} is neither 0 nor 1",
            tidelog=Differs(CLOSED, KAFKA_STUMBLES),
        )
        for level in (7, -1)
    ),
    Case("a follower", _sends(replica_id=55), "NOT_LEADER_OR_FOLLOWER", tidelog=NO_REPLICAS),
    Case(
        "a follower with its state",
        _by_id(None, 15, replica_state=FetchReplicaState(replica_id=55, replica_epoch=3)),
        "NOT_LEADER_OR_FOLLOWER",
        tidelog=NO_REPLICAS,
    ),
    Case("replica -5", _sends(replica_id=-5), OK),
    Case("the name of another cluster", _sends(version=12, cluster_id="elsewhere"), OK),
)

VERSIONS = tuple(
    Case(f"version {version}", _sends(version=version), CLOSED, tidelog=Differs(OK, ALL_VERSIONS))
    for version in range(4)
)

CASES = (*OFFSETS, *SIZES, *TARGETS, *SESSIONS, *READERS, *VERSIONS)
