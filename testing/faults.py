"""Faults on purpose: requests of a test's client are refused, held up, or never answered."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack

import attrs
import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.requests import Phase, RequestStage
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.errors import CODES
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.testing.request_log import OWN_CLIENT_ID, RecentRequests, SeenRequest, copied

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tidelog.kernel.seams.requests import Request

Drop: TypeAlias = Literal["request", "response", "middle"]
Error: TypeAlias = str | int
NameOf: TypeAlias = Callable[[bytes], str | None]
Address: TypeAlias = tuple[str, int]
_DROPS: Final = ("request", "response", "middle")
_COORDINATED: Final = (
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "ConsumerGroupHeartbeat",
    "DescribeGroups",
    "EndTxn",
    "InitProducerId",
    "JoinGroup",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "SyncGroup",
    "TxnOffsetCommit",
)
"""What a coordinator refuses while it loads its state; it accepts heartbeats of classic members, as Kafka."""
_STORAGE: Final = "KAFKA_STORAGE_ERROR"
_LOST_LOG: Final = "NOT_COORDINATOR"
_WRITES: Final[Mapping[str, str]] = {
    "Produce": _STORAGE,
    "CreateTopics": _STORAGE,
    "CreatePartitions": _STORAGE,
    # A coordinator that cannot write its log answers so, as Kafka's.
    "OffsetCommit": _LOST_LOG,
    "TxnOffsetCommit": _LOST_LOG,
    "AddOffsetsToTxn": _LOST_LOG,
    "AddPartitionsToTxn": _LOST_LOG,
    "EndTxn": _LOST_LOG,
}
"""What writes to a disk, and the error when it cannot."""
_NO_BROKER: Final = -1
_LED: Final[tuple[str, ...]] = ("Produce", "Fetch", "ListOffsets")


class ConnectionDropped(ProtocolViolation):
    """The connection ends where a fault says so."""


class InjectedFault:
    """One fault; as a context manager it is removed at the end of the block.

    Attributes:
        count: how many requests it has met
    """

    def __init__(self, owner: InjectedFaults, what: _What, whom: _Whom) -> None:
        self.count = 0
        self._met = RecentRequests()
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
        return f"<InjectedFault {self.what} of {self.whom}, met {self.count} times>"

    @property
    def requests(self) -> list[SeenRequest]:
        """The newest ones that it has met, the oldest first; they have no response yet."""
        return self._met.kept()

    def meet(self, request: Request) -> None:
        """Count and keep a request."""
        api = request.api
        self._met.add(
            SeenRequest(api.name, api.version, request.client_id, copied(request.message), None, 0.0)
        )
        self.count += 1

    def remove(self) -> None:
        """Let later requests pass."""
        self._owner.remove(self)


class WhichRequests(TypedDict, total=False):
    """Which requests meet a fault; see `InjectedFaults.inject`."""

    times: int | None
    seconds: float
    probability: float
    client_id: str | None
    topic: str | None
    version: int | Sequence[int]
    where: Callable[[Any], bool] | None


@attrs.frozen
class _What:
    """What happens to a request: all that is set; `errors` by API, of all others under an empty name."""

    errors: Mapping[str, ErrorCode]
    delay_s: float
    drop: Drop | None
    throttle_s: float
    change: Callable[[Any], None] | None

    @property
    def needs_response(self) -> bool:
        return bool(self.throttle_s or self.change or self.drop in ("response", "middle"))

    def error_of(self, api: str) -> ErrorCode | None:
        return self.errors.get(api, self.errors.get(""))


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
            and (self.topic is None or _is_about(self.topic, request.message, name_of))
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
        self._cuts: set[Address] = set()
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
        error: Error | Mapping[str, Error] | None = None,
        delay: float = 0.0,
        drop: Drop | None = None,
        throttle: float = 0.0,
        change: Callable[[Any], None] | None = None,
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
            error: name or code of an error, which the client gets instead of what it asked for; or those of
                several APIs by their names
            delay: seconds before the request is looked at
            drop: `request` ends the connection before the request is done, `response` when it was done and
                before it is answered, `middle` when half of the response was sent
            throttle: seconds for which the client is throttled after its response
            change: gets the decoded response, and may change it
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
        errors = error if isinstance(error, Mapping) else {} if error is None else {"": error}
        for name in (*apis, *filter(None, errors)):
            if name not in self._apis.values():
                raise ValueError(f"there is no API {name!r}; there are {', '.join(self._apis.values())}")
        if drop is not None and drop not in _DROPS:
            raise ValueError(f"drop is request, response or middle, not {drop!r}")
        if min(delay, throttle, seconds, 0 if times is None else times) < 0:
            raise ValueError("delay, throttle, seconds and times are not negative")
        if not 0 <= probability <= 1:
            raise ValueError(f"a probability is between 0 and 1, not {probability}")
        if not (errors or delay or drop or throttle or change):
            raise ValueError("a fault needs an error, a delay, a drop, a throttle or a change")
        codes = {name: _code(each) for name, each in errors.items()}
        what = _What(codes, delay, drop, throttle, change)
        versions = (version,) if isinstance(version, int) else tuple(version)
        until = self._clock() + seconds
        whom = _Whom(apis, versions, client_id, topic, where, times, probability, until)
        fault = InjectedFault(self, what, whom)
        with self._lock:
            self._faults += (fault,)
        return fault

    def coordinator_loading(self, **which: Unpack[WhichRequests]) -> InjectedFault:
        """Let the coordinators of groups and transactions be loading their state."""
        return self.inject(*_COORDINATED, error="COORDINATOR_LOAD_IN_PROGRESS", **which)

    def leader_unknown(self, **which: Unpack[WhichRequests]) -> InjectedFault:
        """Let partitions, of one topic or all, have no leader: metadata say so, and requests are refused."""
        topic = which.get("topic")

        def without_leader(response: Any) -> None:
            for each in getattr(response, "topics", ()):
                if topic is None or each.name == topic:
                    for partition in getattr(each, "partitions", ()):
                        _take_leader(partition)

        refused: dict[str, Error] = dict.fromkeys(_LED, "NOT_LEADER_OR_FOLLOWER")
        return self.inject("Metadata", *_LED, error=refused, change=without_leader, **which)

    def slow_disk(self, seconds_each: float, **which: Unpack[WhichRequests]) -> InjectedFault:
        """Let everything that is written take so many seconds of the server's time, at each request."""
        return self.inject(*_WRITES, delay=seconds_each, **which)

    def full_disk(self, **which: Unpack[WhichRequests]) -> InjectedFault:
        """Let everything that is written be refused, as on a disk without room; what is there can be read."""
        return self.inject(*_WRITES, error=_WRITES, **which)

    def seed(self, seed: int) -> None:
        """Let this seed decide from now on what meets a fault with a probability."""
        with self._lock:
            self._random.seed(seed)

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
        if any(what.needs_response for what in met):
            self._met[id(request)] = met
        api = request.api.name
        if delay_s or self._resumed is not None:
            return self._later(delay_s, met, api)
        _refuse(met, api)
        return None

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        """Change or drop the response, or throttle the client."""
        met = self._met.pop(id(request), ())
        for what in met:
            if what.change is not None and response is not None:
                what.change(response)
        drops = {what.drop for what in met}
        if "response" in drops:
            raise ConnectionDropped("a fault of the test drops the response")
        if "middle" in drops:
            self._cuts.add((request.host, request.port))
        return max((what.throttle_s for what in met), default=0.0)

    def failed(self, request: Request, error: BaseException, seconds: float) -> None:
        """Forget the request."""
        self._met.pop(id(request), None)

    def takes_cut(self, client: Address) -> bool:
        """Return whether the response to a client that is about to be sent has to be cut; once."""
        if client not in self._cuts:
            return False
        self._cuts.remove(client)
        return True

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
                fault.meet(request)
                met.append(fault.what)
        return met

    async def _later(self, delay_s: float, met: list[_What], api: str) -> None:
        self.held += 1
        try:
            while self._resumed is not None:
                await self._resumed.wait()
            await trio.sleep(delay_s)
        finally:
            self.held -= 1
        _refuse(met, api)


def _refuse(met: list[_What], api: str) -> None:
    for what in met:
        if what.drop == "request":
            raise ConnectionDropped("a fault of the test drops the request")
        code = what.error_of(api)
        if code is not None:
            raise _error(code)


def _take_leader(partition: Any) -> None:
    partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE.value
    partition.leader_id = _NO_BROKER


def _code(error: Error) -> ErrorCode:
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


def _is_about(topic: str, message: Any, name_of: NameOf) -> bool:
    # Without a list metadata are asked for of all topics.
    return getattr(message, "topics", ()) is None or topic in _topics(message, name_of)


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
