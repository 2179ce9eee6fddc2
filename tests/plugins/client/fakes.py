"""A broker that lives in memory and answers by a table, and a driver that needs no network."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import attrs

from tidelog.plugins.client import ClientSettings, RetryPolicy
from tidelog.plugins.client.cluster import Address, ClusterCache
from tidelog.plugins.client.connection import ClientConnection
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError
from tidelog.plugins.client.steps import Exchange, Run, Session, Steps
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, APIS
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    FindCoordinatorCoordinator,
    FindCoordinatorResponse,
)
from tidelog.plugins.protocol_kafka.messages.header import (
    RequestHeader,
    encode_response,
    parse_request_header,
)
from tidelog.plugins.protocol_kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.plugins.schema import decode

P = ParamSpec("P")
T = TypeVar("T")

ALL_VERSIONS = {key: (api.versions.low, api.newest_stable) for key, api in APIS.items()}
ADDRESS = Address("broker-1", 9092)
NOW_MS = 1_700_000_000_000
HASTY = RetryPolicy(retries=3, backoff_s=0.01, max_backoff_s=0.05)


def response_bytes(api_key: int, version: int, correlation_id: int, message: object) -> bytes:
    """A whole response with its length."""
    parts = encode_response(api_key, version, correlation_id, message)
    return b"".join(cast("list[bytes]", parts))


def ranges_message(ranges: Mapping[int, tuple[int, int]], error: int = 0) -> ApiVersionsResponse:
    """An answer to ApiVersions."""
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


@attrs.define
class Asked:
    """A request as the broker saw it."""

    header: RequestHeader
    message: Any


@attrs.define
class FakeBroker:
    """Answers requests in memory.

    `answers` has, by API name, a message, an exception to raise, or a list of them for one call each. A
    function is called with the request and gives the message.
    """

    answers: dict[str, Any] = attrs.field(factory=dict[str, Any])
    ranges: Mapping[int, tuple[int, int]] = attrs.field(default=ALL_VERSIONS)
    asked: list[Asked] = attrs.field(factory=list[Asked])

    def receive(self, data: bytes) -> bytes:
        """Whole request frames in, whole response frames out."""
        return b"".join(self._answer(frame) for frame in split_frames(data))

    def _answer(self, frame: bytes) -> bytes:
        header = parse_request_header(frame)
        api = APIS[header.api_key]
        if api is API_VERSIONS:
            return self._tell_versions(header)
        body = memoryview(frame)[header.body_position :]
        request = decode(api.request_class, header.api_version, body)
        self.asked.append(Asked(header, request))
        answer = self.answers[api.name]
        if isinstance(answer, list):
            calls: list[Any] = answer
            answer = calls.pop(0)
        if isinstance(answer, Exception):
            raise answer
        message = answer(request) if callable(answer) else answer
        return response_bytes(api.key, header.api_version, header.correlation_id, message)

    def _tell_versions(self, header: RequestHeader) -> bytes:
        low, high = self.ranges[API_VERSIONS.key]
        if low <= header.api_version <= high:
            return response_bytes(
                API_VERSIONS.key, header.api_version, header.correlation_id, ranges_message(self.ranges)
            )
        refusal = ranges_message(self.ranges, ErrorCode.UNSUPPORTED_VERSION)
        return response_bytes(API_VERSIONS.key, 0, header.correlation_id, refusal)


def split_frames(data: bytes) -> Iterator[bytes]:
    """Requests or responses without their lengths; none may be cut off."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        assert position + 4 + length <= len(data)
        yield data[position + 4 : position + 4 + length]
        position += 4 + length


def drain(connection: ClientConnection) -> bytes:
    """All that the connection wants to send."""
    sent = b""
    while parts := connection.outgoing():
        data = b"".join(parts)
        connection.bytes_sent(len(data))
        sent += data
    return sent


def settle(connection: ClientConnection, broker: FakeBroker) -> None:
    """Carry bytes to and fro until the versions are settled."""
    while not connection.ready:
        connection.receive_data(broker.receive(drain(connection)))
        connection.next_response()


@attrs.define
class MemoryDriver:
    """Runs operations against brokers in memory; pauses are noted and not waited for, and so are delays."""

    brokers: Mapping[Address, FakeBroker]
    pauses: list[float] = attrs.field(factory=list[float])
    delays: list[float] = attrs.field(factory=list[float])
    session: Session = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.session = Session(ClientSettings(retry=HASTY), ClusterCache(list(self.brokers)), lambda: NOW_MS)

    def run(
        self, operation: Callable[Concatenate[Session, P], Steps[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation to its end."""
        run = Run(operation(self.session, *args, **kwargs))
        while run.step is not None:
            if isinstance(run.step, Exchange):
                self._exchange(run, run.step)
            else:
                self.pauses.append(run.step.seconds)
                run.succeeded(None)
        return run.result

    def _exchange(self, run: Run[Any], step: Exchange) -> None:
        self.delays.append(step.max_delay_s)
        try:
            answers = self._answers(step)
        except ClientError as error:
            run.failed(error)
        else:
            run.succeeded(answers)

    def _answers(self, step: Exchange) -> list[Any]:
        address = next((address for address in step.addresses if address in self.brokers), None)
        if address is None:
            raise BrokerUnreachable([(address, "not there") for address in step.addresses])
        broker = self.brokers[address]
        connection = ClientConnection(str(address))
        settle(connection, broker)
        ids = connection.send(*step.requests, at_most=step.at_most)
        connection.receive_data(broker.receive(drain(connection)))
        answers = {each: connection.next_response() for each in ids if each is not None}
        return [None if each is None else getattr(answers[each], "message", None) for each in ids]


def coordinator_message(node: int, code: int = 0, *, by_key: bool = True) -> FindCoordinatorResponse:
    """The coordinator of whatever was asked for; `by_key` as from version 4 on."""
    if not by_key:
        return FindCoordinatorResponse(error_code=code, node_id=node, host="broker", port=9092)
    found = FindCoordinatorCoordinator(key="", node_id=node, host="broker", port=9092, error_code=code)
    return FindCoordinatorResponse(coordinators=[found])


def metadata_message(
    partitions: Mapping[str, Sequence[int]],
    *,
    brokers: Mapping[int, Address] | None = None,
    errors: Mapping[str, ErrorCode] | None = None,
    topic_id: bytes = bytes(range(16)),
) -> MetadataResponse:
    """Metadata: for each topic the leaders of its partitions, -1 for none."""
    found = [
        MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=topic_id,
            partitions=[
                MetadataResponsePartition(
                    error_code=0, partition_index=index, leader_id=leader, replica_nodes=[1], isr_nodes=[1]
                )
                for index, leader in enumerate(leaders)
            ],
        )
        for name, leaders in partitions.items()
    ]
    missing = [
        MetadataResponseTopic(error_code=code, name=name, partitions=[])
        for name, code in (errors or {}).items()
    ]
    known = {1: ADDRESS} if brokers is None else brokers
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=address.host, port=address.port)
            for node, address in known.items()
        ],
        cluster_id="a-cluster",
        controller_id=1,
        topics=[*found, *missing],
    )
