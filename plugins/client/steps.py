"""Operations without I/O: generators that yield steps and are sent the results.

    def cluster_id(session: Session) -> Steps[str | None]:
        answer: MetadataResponse = yield from send_request(session, MetadataRequest(topics=[]))
        return answer.cluster_id

A driver performs each step: for an `Exchange` it sends the requests and returns their responses, or throws
the `ClientError` into the generator; for a `Pause` it waits. So an operation is written once, for every
driver, and a test needs no network.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from tidelog.plugins.client.cluster import Address, ClusterCache
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.settings import ClientSettings

T = TypeVar("T")


@attrs.frozen
class Exchange:
    """Step: send pipelined requests to one broker and return a list of their responses, in order.

    Attributes:
        addresses: the broker's addresses; any of them is used, one with an open connection first
        requests: messages or `ByVersion`; the response to a Produce with acks 0 is None
        at_most: the highest version to use, None for the highest of both sides
        max_delay_s: how long the broker may delay the response on purpose, beyond the request timeout, in
            seconds
        lane: name of the connection to use: a broker answers the requests of one in order, so that what it
            delays on purpose delays the others
    """

    addresses: tuple[Address, ...]
    requests: tuple[object, ...]
    at_most: int | None = None
    max_delay_s: float = 0.0
    lane: str = ""


@attrs.frozen
class Pause:
    """Step: wait before a retry; `is_extra` gives the operation so much more time."""

    seconds: float
    is_extra: bool = False


Step: TypeAlias = Exchange | Pause


def extra_time_s(step: Step) -> float:
    """Return by how many seconds a step postpones the deadline of its operation."""
    return step.seconds if isinstance(step, Pause) and step.is_extra else 0.0


Steps: TypeAlias = Generator[Step, Any, T]


@attrs.frozen
class Session:
    """State shared by operations: settings, cluster metadata, a clock in milliseconds since the epoch."""

    settings: ClientSettings
    cluster: ClusterCache
    now_ms: Callable[[], int]


class Run(Generic[T]):
    """Running operation: `step` is the next step to perform, None when it has ended with `result`."""

    def __init__(self, steps: Steps[T]) -> None:
        """Start the operation; raise what it raises."""
        self._steps = steps
        self._result: list[T] = []
        self.last_error: ClientError | None = None
        self.step: Step | None = None
        self.succeeded(None)

    @property
    def name(self) -> str:
        """Return the name of the operation, for messages."""
        return str(getattr(self._steps, "__name__", "the operation"))

    @property
    def result(self) -> T:
        """Return the operation's result, once `step` is None."""
        return self._result[0]

    def succeeded(self, outcome: Any) -> None:
        """Continue with `outcome`, the responses to an `Exchange`; raise what the operation raises."""
        try:
            self.step = self._steps.send(outcome)
        except StopIteration as end:
            self._end(end)

    def failed(self, error: ClientError) -> None:
        """Continue after the step failed; raise what the operation raises, often the error itself."""
        self.last_error = error
        try:
            self.step = self._steps.throw(error)
        except StopIteration as end:
            self._end(end)

    def close(self) -> None:
        """Cancel the operation."""
        self._steps.close()

    def _end(self, end: StopIteration) -> None:
        self.step = None
        self._result.append(end.value)
