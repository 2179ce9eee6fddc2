"""What goes through a connection: requests, some of which depend on the version, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tidelog.plugins.protocol_kafka.messages.api import APIS, Api

if TYPE_CHECKING:
    from collections.abc import Callable

_API_OF: Final = {f"{api.name}Request": api for api in APIS.values()}


@attrs.frozen
class ByVersion:
    """Request whose fields depend on the version in which it is sent."""

    api: Api
    build: Callable[[int], Any]


@attrs.frozen
class Response:
    """Decoded response; `message` is of the API's response class. Records in it are views, not copies."""

    correlation_id: int
    api: Api
    version: int
    message: Any


def api_of(request: object) -> Api:
    """Return the API of a request message or a `ByVersion`.

    Raises:
        TypeError: `request` is neither.
    """
    if isinstance(request, ByVersion):
        return request.api
    api = _API_OF.get(type(request).__name__)
    if api is None:
        raise TypeError(f"{type(request).__name__} is no request message")
    return api


def message_for(request: object, version: int) -> Any:
    """Return the message to send in that version."""
    return request.build(version) if isinstance(request, ByVersion) else request
