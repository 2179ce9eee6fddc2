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
    """A request whose fields depend on the version that it goes out in."""

    api: Api
    build: Callable[[int], Any]


@attrs.frozen
class Response:
    """An answer, decoded; `message` is of the API's response class. Records in it are views, not copies."""

    correlation_id: int
    api: Api
    version: int
    message: Any


def api_of(request: object) -> Api:
    """The API of a request message or a `ByVersion`.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(request, ByVersion):
        return request.api
    api = _API_OF.get(type(request).__name__)
    if api is None:
        raise TypeError(f"{type(request).__name__} is no request message")
    return api


def message_for(request: object, version: int) -> Any:
    """The message to send in that version."""
    return request.build(version) if isinstance(request, ByVersion) else request
