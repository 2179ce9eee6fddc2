"""Requests and responses of a connection, and version negotiation: the newest that both sides support.

A client sends ApiVersions first, in the newest version that it supports. A broker without that version
answers in version 0 with UNSUPPORTED_VERSION and, if it is not too old, with the versions that it supports
(KIP-511).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from tidelog import __version__
from tidelog.plugins.client.errors import ErrorResponse, UnsupportedByBroker
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    APIS,
    FETCH,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.header import FIRST_FLEXIBLE, NEVER
from tidelog.plugins.schema.declare import versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsResponse
    from tidelog.plugins.schema.declare import VersionSpan

_API_OF: Final = {f"{api.name}Request": api for api in APIS.values()}


class DeclaredApi(Protocol):
    """API that a plugin adds to the protocol; a `KafkaApi` of a plugin of the broker is one."""

    @property
    def key(self) -> int:
        """Its number in request headers."""
        ...

    @property
    def name(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def request(self) -> type[Any]:
        """The class of its requests."""
        ...

    @property
    def response(self) -> type[Any]:
        """The class of its responses."""
        ...


@attrs.frozen
class PluginApi:
    """API that a plugin adds to the protocol, declared for a client that has only its messages.

    `request` and `response` are the classes of the messages, whose versions are those of the API.
    """

    key: int
    name: str
    request: type[Any]
    response: type[Any]

    @property
    def versions(self) -> VersionSpan:
        """The versions of its messages."""
        return versions_of(self.request)

    @property
    def newest_stable(self) -> int:
        """The highest version."""
        return self.versions.high

    @property
    def response_class(self) -> type[Any]:
        """The class of its responses."""
        return self.response


AnyApi: TypeAlias = Api | PluginApi


def first_flexible(api: AnyApi) -> Mapping[int, int]:
    """Return the first version whose headers have tagged fields, by the key of the API."""
    if isinstance(api, Api):
        return FIRST_FLEXIBLE
    flexible = api.versions.flexible
    return {api.key: NEVER if flexible is None else flexible}


@attrs.frozen
class ByVersion:
    """Request whose fields depend on the version in which it is sent."""

    api: AnyApi
    build: Callable[[int], Any]


def of_plugin(api: DeclaredApi, message: object) -> ByVersion:
    """Return a request of an API that a plugin adds.

    Raises:
        TypeError: `message` is no request of that API.
    """
    if not isinstance(message, api.request):
        raise TypeError(
            f"{type(message).__name__} is no request of {api.name}: that is {api.request.__name__}"
        )
    return ByVersion(PluginApi(api.key, api.name, api.request, api.response), lambda _version: message)


@attrs.frozen
class Response:
    """Decoded response; `message` is of the API's response class. Records in it are views, not copies."""

    correlation_id: int
    api: AnyApi
    version: int
    message: Any


def api_of(request: object) -> AnyApi:
    """Return the API of a request message or a `ByVersion`.

    Raises:
        TypeError: `request` is neither.
    """
    if isinstance(request, ByVersion):
        return request.api
    api = _API_OF.get(type(request).__name__)
    if api is None:
        raise TypeError(
            f"{type(request).__name__} is no request of Kafka's; for one of a plugin name its API: "
            "request(..., api=...)"
        )
    return api


def message_for(request: object, version: int) -> Any:
    """Return the message to send in that version."""
    return request.build(version) if isinstance(request, ByVersion) else request


SOFTWARE_NAME: Final = "tidelog"

_BEFORE_NEGOTIATION: Final = {
    PRODUCE.key: (0, 0),
    FETCH.key: (0, 0),
    LIST_OFFSETS.key: (0, 0),
    METADATA.key: (0, 0),
    OFFSET_COMMIT.key: (0, 1),
    OFFSET_FETCH.key: (0, 1),
    FIND_COORDINATOR.key: (0, 0),
}
"""What Kafka 0.8.2 serves; Kafka 0.8.0 and 0.8.1 close the connection at the last three."""


@attrs.frozen
class BrokerVersions:
    """API versions of a broker: lowest and highest version by API key."""

    peer: str
    ranges: Mapping[int, tuple[int, int]]

    @classmethod
    def from_response(cls, peer: str, response: ApiVersionsResponse) -> BrokerVersions:
        """Convert an ApiVersions response."""
        return cls(peer, {api.api_key: (api.min_version, api.max_version) for api in response.api_keys})

    def newest(self, api: AnyApi, at_most: int | None = None) -> int:
        """Return the newest stable version that both sides support, not above `at_most`.

        Raises:
            UnsupportedByBroker: the sides have no version in common.
        """
        theirs = self.ranges.get(api.key)
        low, high = api.versions.low, api.newest_stable
        if at_most is not None:
            high = min(high, at_most)
        if theirs is None or max(low, theirs[0]) > min(high, theirs[1]):
            raise UnsupportedByBroker(self.peer, api.name, (low, high), theirs)
        return min(high, theirs[1])


def versions_before_negotiation(peer: str) -> BrokerVersions:
    """Return the versions of a broker without ApiVersions: Kafka before 0.10."""
    return BrokerVersions(peer, _BEFORE_NEGOTIATION)


def versions_request() -> ApiVersionsRequest:
    """Return the first request of every connection."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)


def version_to_retry(peer: str, answer: ApiVersionsResponse, sent: int) -> int | None:
    """Return the version of ApiVersions to retry with, None when `answer` has the ranges.

    It is always lower than `sent`, so that the negotiation ends.

    Raises:
        ErrorResponse: the broker answers with another error.
    """
    code = ErrorCode.of(answer.error_code)
    if code is ErrorCode.NONE:
        return None
    if code is not ErrorCode.UNSUPPORTED_VERSION or sent == 0:
        raise ErrorResponse(code, f"{API_VERSIONS.name} v{sent} of {peer}")
    theirs = BrokerVersions.from_response(peer, answer).ranges.get(API_VERSIONS.key, (0, 0))
    return max(0, min(theirs[1], sent - 1))
