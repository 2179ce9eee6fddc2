"""What clients have asked a broker for, and what they were answered."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tidelog.kernel.seams.requests import Phase, RequestStage

if TYPE_CHECKING:
    from tidelog.kernel.seams.requests import Request

MOST_REQUESTS: Final = 10_000
"""That are kept, the newest ones."""
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


class RequestLog(RequestStage):
    """Keeps the newest requests; any thread may ask for them.

    It comes after the stage of faults, so that it sees what clients get.
    """

    phase = Phase.FAULTS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[SeenRequest] = deque(maxlen=MOST_REQUESTS)
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
        with self._lock:
            seen = list(self._seen)
        return [
            each
            for each in seen
            if (api is None or each.api == api) and (client_id is None or each.client_id == client_id)
        ]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
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
        found = SeenRequest(
            request.api.name, request.api.version, request.client_id, message, response, seconds, error
        )
        with self._lock:
            self._seen.append(found)


def copied(value: Any) -> Any:
    """Return a message with its own bytes."""
    kind = cast("Any", type(value))
    if kind is memoryview:
        return bytes(value)
    if kind is list:
        return [copied(each) for each in value]
    if attrs.has(kind):
        names = [field.name for field in attrs.fields(kind)]
        return kind(**{name: copied(getattr(value, name)) for name in names})
    return value
