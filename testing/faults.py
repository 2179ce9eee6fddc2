"""Faults on purpose: requests of a test's client are refused, held up, or never answered."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs
import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.requests import Phase, RequestStage
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.errors import CODES
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.testing.request_log import OWN_CLIENT_ID, SeenRequest, copied

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tidelog.kernel.seams.requests import Request

Drop: TypeAlias = Literal["request", "response"]
NameOf: TypeAlias = Callable[[bytes], str | None]
_DROPS: Final = ("request", "response")


class ConnectionDropped(ProtocolViolation):
    """The connection ends where a fault says so."""


class InjectedFault:
    """One fault; as a context manager it is removed at the end of the block.

    Attributes:
        requests: those that it has met, the oldest first; they have no response yet
    """

    def __init__(self, owner: InjectedFaults, what: _What, whom: _Whom) -> None:
        self.requests: list[SeenRequest] = []
        self._owner = owner
        self.what = what
        self.whom = whom
        self.left = whom.times

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<InjectedFault {self.what} of {self.whom}, met {len(self.requests)} times>"

    @property
    def count(self) -> int:
        """How many requests it has met."""
        return len(self.requests)

    def remove(self) -> None:
        """Let later requests pass."""
        self._owner.remove(self)


@attrs.frozen
class _What:
    """What happens to a request: all that is set."""

    error: ErrorCode | None
    delay_s: float
    drop: Drop | None
    throttle_s: float


@attrs.frozen
class _Whom:
    """Which requests: all for which everything holds that is set."""

    apis: Sequence[str]
    versions: Sequence[int]
    client_id: str | None
    topic: str | None
    where: Callable[[Any], bool] | None
    times: int | None
    probability: float
    until: float
    """On the server's clock."""

    def has(self, request: Request, name_of: NameOf) -> bool:
        return (
            (not self.apis or request.api.name in self.apis)
            and (not self.versions or request.api.version in self.versions)
            and (self.client_id is None or request.client_id == self.client_id)
            and (self.topic is None or self.topic in _topics(request.message, name_of))
            and (self.where is None or self.where(request.message))
        )


class InjectedFaults(RequestStage):
    """The faults of one broker.

        with kafka.faults.produce(error="NOT_LEADER_OR_FOLLOWER", times=2) as fault:
            ...
        assert fault.count == 2

    Each API has a method with its name: `faults.join_group`, `faults.fetch`; `inject` is for several, or all.
    Requests of the `KafkaServer` itself meet none.
    """

    phase = Phase.FAULTS

    def __init__(
        self, apis: Iterable[str], name_of: NameOf, clock: Callable[[], float], seed: int = 0
    ) -> None:
        """`apis` are the names that there are, `name_of` has the topics' names by their ids.

        `clock` returns seconds of the server's time, `seed` decides what meets a fault with a probability.
        """
        self._clock = clock
        self._name_of = name_of
        self._apis = {_snake_case(name): name for name in apis}
        self._lock = threading.Lock()
        self._faults: tuple[InjectedFault, ...] = ()
        self._random = random.Random(seed)
        self._met: dict[int, list[_What]] = {}
        self._resumed: trio.Event | None = None
        self.held = 0
        """Requests that wait, since the server is paused or a fault delays them."""

    def __getattr__(self, name: str) -> Callable[..., InjectedFault]:
        if name.startswith("_") or name not in self._apis:
            raise AttributeError(f"there is no API {name!r}: see dir() of it for their names")
        return partial(self.inject, self._apis[name])

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._apis])

    def inject(
        self,
        *apis: str,
        error: str | int | None = None,
        delay: float = 0.0,
        drop: Drop | None = None,
        throttle: float = 0.0,
        times: int | None = None,
        seconds: float = math.inf,
        probability: float = 1.0,
        client_id: str | None = None,
        topic: str | None = None,
        version: int | Sequence[int] = (),
        where: Callable[[Any], bool] | None = None,
    ) -> InjectedFault:
        """Let requests of some APIs, or of all, meet a fault until it is removed.

        Args:
            apis: names such as `Produce`
            error: name or code of an error, which the client gets instead of what it asked for
            delay: seconds before the request is looked at
            drop: `request` ends the connection before the request is done, `response` when it was done and
                before it is answered
            throttle: seconds for which the client is throttled after its response
            times: so many requests, None for no limit
            seconds: for so many seconds of the server's time, from now on
            probability: of each request, as a seed decides it
            client_id: of clients with this id alone
            topic: of requests about this topic alone
            version: of these versions of the API alone
            where: gets the decoded request; of those alone for which it returns True

        Raises:
            ValueError: there is no such API or error, a number cannot be one, or nothing is to happen.
        """
        for name in apis:
            if name not in self._apis.values():
                raise ValueError(f"there is no API {name!r}; there are {', '.join(self._apis.values())}")
        if drop is not None and drop not in _DROPS:
            raise ValueError(f"drop is request or response, not {drop!r}")
        if min(delay, throttle, seconds, 0 if times is None else times) < 0:
            raise ValueError("delay, throttle, seconds and times are not negative")
        if not 0 <= probability <= 1:
            raise ValueError(f"a probability is between 0 and 1, not {probability}")
        if not (error is not None or delay or drop or throttle):
            raise ValueError("a fault needs an error, a delay, a drop or a throttle")
        what = _What(None if error is None else _code(error), delay, drop, throttle)
        versions = (version,) if isinstance(version, int) else tuple(version)
        until = self._clock() + seconds
        whom = _Whom(apis, versions, client_id, topic, where, times, probability, until)
        fault = InjectedFault(self, what, whom)
        with self._lock:
            self._faults += (fault,)
        return fault

    def remove(self, fault: InjectedFault) -> None:
        """Let later requests pass a fault."""
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults = ()

    def pause(self) -> None:
        """Hold all requests from now on; called in the broker's thread."""
        self._resumed = self._resumed or trio.Event()

    def resume(self) -> None:
        """Let the requests continue that were held; called in the broker's thread."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def before(self, request: Request) -> Awaitable[None] | None:
        """Let a request meet the faults that are for it."""
        if request.client_id == OWN_CLIENT_ID:
            return None
        met = self._meet(request) if self._faults else []
        delay_s = sum(what.delay_s for what in met)
        if any(what.throttle_s or what.drop == "response" for what in met):
            self._met[id(request)] = met
        if delay_s or self._resumed is not None:
            return self._later(delay_s, met)
        self._refuse(met)
        return None

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        """Drop the response, or throttle the client."""
        met = self._met.pop(id(request), ())
        if any(what.drop == "response" for what in met):
            raise ConnectionDropped("a fault of the test drops the response")
        return max((what.throttle_s for what in met), default=0.0)

    def failed(self, request: Request, error: BaseException, seconds: float) -> None:
        """Forget the request."""
        self._met.pop(id(request), None)

    def _meet(self, request: Request) -> list[_What]:
        met: list[_What] = []
        now = self._clock()
        with self._lock:
            for fault in self._faults:
                whom = fault.whom
                if fault.left == 0 or now >= whom.until or not whom.has(request, self._name_of):
                    continue
                if whom.probability < 1 and self._random.random() >= whom.probability:
                    continue
                if fault.left is not None:
                    fault.left -= 1
                api = request.api
                fault.requests.append(
                    SeenRequest(api.name, api.version, request.client_id, copied(request.message), None, 0.0)
                )
                met.append(fault.what)
        return met

    async def _later(self, delay_s: float, met: list[_What]) -> None:
        self.held += 1
        try:
            while self._resumed is not None:
                await self._resumed.wait()
            await trio.sleep(delay_s)
        finally:
            self.held -= 1
        self._refuse(met)

    def _refuse(self, met: list[_What]) -> None:
        for what in met:
            if what.drop == "request":
                raise ConnectionDropped("a fault of the test drops the request")
            if what.error is not None:
                raise _error(what.error)


def _code(error: str | int) -> ErrorCode:
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise ValueError(f"Kafka has no error {error!r}; NOT_LEADER_OR_FOLLOWER is one") from None


def _error(code: ErrorCode) -> BrokerError:
    for kind, its_code in CODES.items():
        if its_code is code:
            return kind("a fault of the test")
    kind = type(f"Injected{code.name}", (BrokerError,), {})
    CODES[kind] = code
    return kind("a fault of the test")


def _snake_case(name: str) -> str:
    return "".join("_" + each.lower() if each.isupper() else each for each in name).lstrip("_")


def _topics(message: Any, name_of: NameOf) -> set[str | None]:
    """Return the names of the topics that a request is about."""
    found: set[str | None] = set()
    for field in ("topics", "topic_data"):
        for each in getattr(message, field, None) or ():
            topic_id = getattr(each, "topic_id", None)
            found.add(each if isinstance(each, str) else _name(each))
            if topic_id and any(topic_id):
                found.add(name_of(topic_id))
    return found


def _name(topic: Any) -> str | None:
    return getattr(topic, "name", None) or getattr(topic, "topic", None)
