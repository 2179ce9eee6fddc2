"""Requests as bytes, and what their answers say, in words that a table can hold."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

import attrs

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.header import encode_request, parse_response_header
from tidelog.plugins.schema import decode

from .raw import framed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.plugins.protocol_kafka.messages.api import Api

CORRELATION_ID = 4711
CLIENT_ID = "bad-input"


@attrs.frozen
class Sent:
    """Bytes for a broker; `api` and `version` tell how the answer is to be read."""

    data: bytes
    api: Api = apis.API_VERSIONS
    version: int = 0
    then_end: bool = False
    """Whether the client says afterwards that nothing more will come."""


def ask(api: Api, version: int, request: object, *, client_id: str = CLIENT_ID) -> Sent:
    """A request that is encoded as it should be."""
    parts = cast("list[bytes]", encode_request(api.key, version, CORRELATION_ID, client_id, request))
    return Sent(b"".join(parts), api, version)


def by_hand(api: Api, version: int, body: bytes) -> Sent:
    """A request whose header is right and whose body is `body`."""
    return Sent(framed(header(api.key, version) + body), api, version)


def header(key: int, version: int, *, tags: bytes | None = None) -> bytes:
    """A request header; `tags` (no tagged fields unless given) are there in flexible versions only."""
    client = CLIENT_ID.encode()
    known = apis.APIS.get(key)
    flexible = known is not None and known.versions.is_flexible(version)
    behind = (b"\0" if tags is None else tags) if flexible else b""
    return struct.pack(f">hhih{len(client)}s", key, version, CORRELATION_ID, len(client), client) + behind


def cut(sent: Sent, count: int) -> Sent:
    """The request without its last `count` bytes, in a frame of the right length."""
    return attrs.evolve(sent, data=framed(sent.data[4:-count]))


def lengthened(sent: Sent, extra: bytes) -> Sent:
    """The request with `extra` behind it, in a frame of the right length."""
    return attrs.evolve(sent, data=framed(sent.data[4:] + extra))


def replaced(sent: Sent, old: bytes, new: bytes) -> Sent:
    """The request with the only occurrence of `old` replaced, in a frame of the right length."""
    assert sent.data.count(old) == 1, f"{old!r} is {sent.data.count(old)} times in the request"
    return attrs.evolve(sent, data=framed(sent.data[4:].replace(old, new)))


def response_of(sent: Sent, frame: bytes) -> Any:
    """The answer as a message; raises AssertionError when it answers something else."""
    version = sent.version
    if sent.api is apis.API_VERSIONS and frame[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION):
        version = 0
    correlation_id, position = parse_response_header(sent.api.key, version, frame)
    assert correlation_id == CORRELATION_ID, f"an answer to request {correlation_id}"
    return decode(sent.api.response_class, version, frame[position:])


def outcome_of(response: Any) -> str:
    """The error codes that an answer carries, by name, with commas between."""
    read = _CODES[type(response).__name__.removesuffix("Response")]
    return ",".join(ErrorCode.of(code).name for code in read(response))


def _partition_codes(response: Any, topics: str, partitions: str) -> Iterable[int]:
    return (part.error_code for topic in getattr(response, topics) for part in getattr(topic, partitions))


def _produce_codes(response: Any) -> Iterable[int]:
    return _partition_codes(response, "responses", "partition_responses")


def _fetch_codes(response: Any) -> Iterable[int]:
    return (
        [response.error_code]
        if response.error_code
        else _partition_codes(response, "responses", "partitions")
    )


def _find_coordinator_codes(response: Any) -> Iterable[int]:
    return (
        (found.error_code for found in response.coordinators)
        if response.coordinators
        else [response.error_code]
    )


def _offset_fetch_codes(response: Any) -> Iterable[int]:
    """Of each group its own code, or those of its partitions when it has some."""
    for group in response.groups or [response]:
        partitions = [*_partition_codes(group, "topics", "partitions")]
        yield from [group.error_code] if group.error_code or not partitions else partitions


def _add_partitions_codes(response: Any) -> Iterable[int]:
    """Sorted: the order of the partitions in the answer means nothing."""
    if response.error_code:
        return [response.error_code]
    topics = [topic for result in response.results_by_transaction for topic in result.topic_results]
    topics += response.results_by_topic_v3_and_below
    return sorted(result.partition_error_code for topic in topics for result in topic.results_by_partition)


def _leave_group_codes(response: Any) -> Iterable[int]:
    if response.error_code or not response.members:
        return [response.error_code]
    return (member.error_code for member in response.members)


def _offset_delete_codes(response: Any) -> Iterable[int]:
    return (
        [response.error_code] if response.error_code else _partition_codes(response, "topics", "partitions")
    )


def _top_level_code(response: Any) -> Iterable[int]:
    return [response.error_code]


_CODES: dict[str, Callable[[Any], Iterable[int]]] = {
    "Produce": _produce_codes,
    "Fetch": _fetch_codes,
    "ListOffsets": lambda response: _partition_codes(response, "topics", "partitions"),
    "Metadata": lambda response: (topic.error_code for topic in response.topics),
    "FindCoordinator": _find_coordinator_codes,
    "ApiVersions": lambda response: [response.error_code],
    "CreateTopics": lambda response: (topic.error_code for topic in response.topics),
    "DeleteTopics": lambda response: (topic.error_code for topic in response.responses),
    "InitProducerId": lambda response: [response.error_code],
    "OffsetForLeaderEpoch": lambda response: _partition_codes(response, "topics", "partitions"),
    "JoinGroup": _top_level_code,
    "SyncGroup": _top_level_code,
    "Heartbeat": _top_level_code,
    "LeaveGroup": _leave_group_codes,
    "DescribeGroups": lambda response: (group.error_code for group in response.groups),
    "ListGroups": _top_level_code,
    "DeleteGroups": lambda response: (result.error_code for result in response.results),
    "OffsetCommit": lambda response: _partition_codes(response, "topics", "partitions"),
    "OffsetFetch": _offset_fetch_codes,
    "OffsetDelete": _offset_delete_codes,
    "AddPartitionsToTxn": _add_partitions_codes,
    "AddOffsetsToTxn": _top_level_code,
    "EndTxn": _top_level_code,
    "TxnOffsetCommit": lambda response: _partition_codes(response, "topics", "partitions"),
    "DescribeTransactions": lambda response: (each.error_code for each in response.transaction_states),
    "ListTransactions": _top_level_code,
    "DescribeProducers": lambda response: _partition_codes(response, "topics", "partitions"),
    "ConsumerGroupHeartbeat": _top_level_code,
    "ConsumerGroupDescribe": lambda response: (group.error_code for group in response.groups),
    "DescribeConfigs": lambda response: (result.error_code for result in response.results),
    "AlterConfigs": lambda response: (result.error_code for result in response.responses),
    "IncrementalAlterConfigs": lambda response: (result.error_code for result in response.responses),
    "CreatePartitions": lambda response: (result.error_code for result in response.results),
    "DeleteRecords": lambda response: _partition_codes(response, "topics", "partitions"),
}
