"""What clients have asked a broker for, and what they were answered."""

from __future__ import annotations

import threading
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tidelog.kernel.seams.requests import Phase, RequestStage
from tidelog.kernel.seams.storage import FileRegion

if TYPE_CHECKING:
    from tidelog.kernel.seams.requests import Request

MOST_REQUESTS: Final = 10_000
"""That are kept, the newest ones."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""About what those with their responses hold in memory; the newest one is kept if it alone has more."""
_OBJECT_BYTES: Final = 64
"""About what an object has beside its content, and a number in all."""
OWN_CLIENT_ID: Final = "tidelog-kafka-server"
"""Of the requests of a `KafkaServer` itself, which are not in the log, and meet no faults."""


@attrs.frozen
class SeenRequest:
    """A request and its outcome.

    Attributes:
        api: name of the API, as `Produce`
        version: version of the API
        client_id: what the client calls itself, None if it does not
        message: the decoded request; its class has Kafka's field names in Python spelling
        response: the decoded response, None if there was none
        seconds: from the request to the response
        error: what ended the connection instead of a response, None without that
    """

    api: str
    version: int
    client_id: str | None
    message: Any
    response: Any
    seconds: float
    error: BaseException | None = None

    def __str__(self) -> str:
        outcome = self.response if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return f"{self.api} {self.version} of {self.client_id}: {self.message} -> {outcome}"


class RecentRequests:
    """The newest requests within `MOST_REQUESTS` and `MOST_BYTES`; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[tuple[SeenRequest, int]] = deque()
        self._bytes = 0

    def add(self, seen: SeenRequest) -> None:
        """Keep a request, and drop the oldest ones that are beyond a limit."""
        size = held_bytes(seen.message) + held_bytes(seen.response)
        with self._lock:
            self._kept.append((seen, size))
            self._bytes += size
            while len(self._kept) > MOST_REQUESTS or (self._bytes > MOST_BYTES and len(self._kept) > 1):
                self._bytes -= self._kept.popleft()[1]

    def kept(self) -> list[SeenRequest]:
        """Return them, the oldest first."""
        with self._lock:
            return [seen for seen, _ in self._kept]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0


class RequestLog(RequestStage):
    """Keeps the newest requests; any thread may ask for them.

    It comes after the stage of faults, so that it sees what clients get.
    """

    phase = Phase.FAULTS

    def __init__(self) -> None:
        self._seen = RecentRequests()
        self._messages: dict[int, Any] = {}

    def before(self, request: Request) -> None:
        """Copy the message, whose buffers are used again after the request."""
        if request.client_id != OWN_CLIENT_ID:
            self._messages[id(request)] = copied(request.message)

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        """Note the request with its response."""
        self._note(request, response, seconds, None)
        return 0.0

    def failed(self, request: Request, error: BaseException, seconds: float) -> None:
        """Note the request without a response."""
        self._note(request, None, seconds, error)

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[SeenRequest]:
        """Return what was asked, the oldest first: all, or of one API, or of one client."""
        return [
            each
            for each in self._seen.kept()
            if (api is None or each.api == api) and (client_id is None or each.client_id == client_id)
        ]

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()

    def _note(
        self, request: Request, response: object | None, seconds: float, error: BaseException | None
    ) -> None:
        if request.client_id == OWN_CLIENT_ID:
            return
        message = self._messages.pop(id(request), None)
        if message is None:
            # A fault has refused it, so that `before` was not called.
            message = copied(request.message)
        api = request.api
        self._seen.add(
            SeenRequest(api.name, api.version, request.client_id, message, response, seconds, error)
        )


def copied(value: Any) -> Any:
    """Return a message with its own bytes."""
    kind = cast("Any", type(value))
    if kind is memoryview:
        return bytes(value)
    if kind is list:
        return [copied(each) for each in value]
    if attrs.has(kind):
        return kind(**{name: copied(getattr(value, name)) for name in _fields(kind)})
    return value


def held_bytes(value: Any) -> int:
    """Return about how many bytes of memory a message holds."""
    kind = cast("Any", type(value))
    if kind is memoryview:
        return _OBJECT_BYTES + cast("memoryview", value).nbytes
    if isinstance(value, bytes | bytearray | str):
        return _OBJECT_BYTES + len(value)
    if isinstance(value, list | tuple):
        return _OBJECT_BYTES + sum(map(held_bytes, cast("Any", value)))
    # What is fetched from a file is not in memory.
    if attrs.has(kind) and kind is not FileRegion:
        return _OBJECT_BYTES + sum(held_bytes(getattr(value, name)) for name in _fields(kind))
    return _OBJECT_BYTES


@cache
def _fields(kind: Any) -> list[str]:
    return [field.name for field in attrs.fields(kind)]
