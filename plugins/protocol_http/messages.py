"""Requests and responses of HTTP, as the handlers of routes have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


@attrs.frozen
class HttpRequest:
    """A whole request; names of `headers` are in lower case, parts of `path` are decoded."""

    method: str
    path: Sequence[str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """What `Content-Type` says, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class EventSource(Protocol):
    """A response without an end, in pieces."""

    async def next_piece(self) -> bytes | None:
        """Return the next piece, once there is one; None at the end. A cancelled call has lost nothing."""
        ...


@attrs.frozen
class HttpResponse:
    """A response; with `events` its body follows in pieces, else it is `body`."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()
    events: EventSource | None = None


@attrs.frozen
class WebSocketAccepted:
    """The connection becomes a WebSocket, which sends what is in `events`."""

    events: EventSource


class HttpProblem(Exception):
    """A request that cannot be served; the client gets the status, and the code and text as JSON.

    Codes are those of Kafka's REST proxies where these have them: the status and two digits.
    """

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code


@attrs.frozen
class OperationMessage:
    """The decoded request as stages get it: Kafka's operation on these topics, and the HTTP request."""

    topics: Sequence[str]
    group_id: str | None
    request: HttpRequest
    parameters: Mapping[str, Any]
