"""Operations without I/O: generators that yield what they need and are sent what came of it.

    def cluster_id(session: Session) -> Steps[str | None]:
        answer: MetadataResponse = yield from ask(session, MetadataRequest(topics=[]))
        return answer.cluster_id

A driver performs each step: it sends the requests of an `Ask` and hands back their answers, or throws the
`ClientError` in; it waits out a `Pause`. So an operation is written once, for every driver, and a test needs
no network.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from tidelog.plugins.client.addresses import Address
from tidelog.plugins.client.cluster import Cluster
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.settings import ClientSettings

T = TypeVar("T")


@attrs.frozen
class Ask:
    """Send requests to one broker, one behind the other, and get a list of their answers, in order.

    Attributes:
        addresses: where to send them: any of these, an open connection first
        requests: messages or `ByVersion`; the answer to a Produce with acks 0 is None
        at_most: the newest version to use, None for the newest that there is
        patience_s: how long the broker may take on purpose, in addition to the usual time
    """

    addresses: tuple[Address, ...]
    requests: tuple[object, ...]
    at_most: int | None = None
    patience_s: float = 0.0


@attrs.frozen
class Pause:
    """Wait before the next try."""

    seconds: float


Step: TypeAlias = Ask | Pause
Steps: TypeAlias = Generator[Step, Any, T]


@attrs.frozen
class Session:
    """What operations share: settings, knowledge of the cluster, a clock in milliseconds since the epoch."""

    settings: ClientSettings
    cluster: Cluster
    now_ms: Callable[[], int]


class Run(Generic[T]):
    """An operation under way: `step` is what it needs next, None when it has ended with `result`."""

    def __init__(self, steps: Steps[T]) -> None:
        """Starts the operation; raises what it raises."""
        self._steps = steps
        self._result: list[T] = []
        self.last_error: ClientError | None = None
        self.step: Step | None = None
        self.succeeded(None)

    @property
    def result(self) -> T:
        """What the operation returned, once `step` is None."""
        return self._result[0]

    def succeeded(self, outcome: Any) -> None:
        """The step was performed; `outcome` is the answers to an `Ask`. Raises what the operation raises."""
        try:
            self.step = self._steps.send(outcome)
        except StopIteration as end:
            self._end(end)

    def failed(self, error: ClientError) -> None:
        """The step went wrong; raises what the operation raises, often the error itself."""
        self.last_error = error
        try:
            self.step = self._steps.throw(error)
        except StopIteration as end:
            self._end(end)

    def close(self) -> None:
        """Give the operation up."""
        self._steps.close()

    def _end(self, end: StopIteration) -> None:
        self.step = None
        self._result.append(end.value)
