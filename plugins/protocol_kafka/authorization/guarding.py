"""Guards: generator functions around handlers that ask the authorizer, and what drives them.

A guard gets a request, yields what of it the handler is to serve, is sent the response, and returns it with
what was refused:

    def guard(access, request):
        allowed = yield from access.among(TOPIC, READ, names)
        response = yield attrs.evolve(request, topics=...)
        response.topics.extend(...)
        return response

It yields None between pieces of long work. It may return without a yield of the request: the handler is not
called then. A `BrokerError` refuses the whole request. A guard asks all before it changes anything, since it
is run again where a decision takes time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import attrs

from tidelog.kernel.errors import BrokerError, ClusterAuthorizationFailed, UnknownTopicId
from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.pace import ITEMS_PER_STEP, Pace, run_to_end
from tidelog.kernel.seams.authorizer import Subject, Undecided
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi, RequestContext, resolve
from tidelog.plugins.protocol_kafka.context import KnownAccess
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.refusal import refusal
from tidelog.plugins.schema import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.kernel.request import Authorization

T = TypeVar("T")

EMPTY: Final[Mapping[str, object]] = {}

Guard: TypeAlias = Callable[["Access", Any], Generator[Any, Any, Any]]
Passes: TypeAlias = Callable[[KnownAccess, Any], bool]
"""Returns whether all that a request needs is known to be allowed."""

_SUPPORTED: Final[Mapping[ResourceType, Sequence[AclOperation]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}
"""The operations in authorized operations fields (KIP-430)."""


class Access:
    """What one request may do."""

    __slots__ = ("_api", "_authorization", "_subject", "_values", "context")

    def __init__(
        self,
        authorization: Authorization,
        api: KafkaApi,
        context: RequestContext,
        values: Mapping[str, object] = EMPTY,
    ) -> None:
        """`values` are those of fields of a refusal, by name, beside the error code."""
        peer = context.peer
        self._values = values
        self.context = context
        self._authorization = authorization
        self._api = api
        self._subject = Subject(context.principal, peer.host, peer.listener_name)

    def allows(
        self, resource_type: ResourceType, operation: AclOperation, name: str, *, audited: bool = True
    ) -> bool:
        """Return whether it may do this; not `audited` is what only leaves something out of an answer."""
        return self._authorization.allows(
            self._subject, operation, resource_type, name, self._api.name, audited=audited
        )

    def allows_on_cluster(self, operation: AclOperation, *, audited: bool = True) -> bool:
        """Return whether it may do this with the cluster."""
        return self.allows(ResourceType.CLUSTER, operation, CLUSTER_NAME, audited=audited)

    def allows_any(self, resource_type: ResourceType, operation: AclOperation) -> bool:
        """Return whether it may do this with any resource of a type."""
        return self._authorization.allows_any(self._subject, operation, resource_type)

    def need_on_cluster(self, operation: AclOperation) -> None:
        """Refuse the request unless it may do this with the cluster.

        Raises:
            ClusterAuthorizationFailed: it may not.
        """
        if not self.allows_on_cluster(operation):
            raise ClusterAuthorizationFailed("Cluster authorization failed.")

    def need(
        self, resource_type: ResourceType, operation: AclOperation, name: str, error: type[BrokerError]
    ) -> None:
        """Refuse the request unless it may do this.

        Raises:
            BrokerError: it may not, with an error of this type.
        """
        if not self.allows(resource_type, operation, name):
            raise error(f"{resource_type.name.capitalize().replace('_', ' ')} authorization failed.")

    def among(
        self,
        resource_type: ResourceType,
        operation: AclOperation,
        names: Iterable[str],
        *,
        audited: bool = True,
    ) -> Generator[None, Any, set[str]]:
        """Return those of the names with which it may do this, in steps."""
        allowed = set[str]()
        for number, name in enumerate(dict.fromkeys(names), 1):
            if self.allows(resource_type, operation, name, audited=audited):
                allowed.add(name)
            if number % ITEMS_PER_STEP == 0:
                yield
        return allowed

    async def visible_topics(self, names: Collection[str]) -> frozenset[str]:
        """Return those of the topics that it may describe, once all is decided."""
        allowed, pace = set[str](), Pace()
        for name in names:
            while True:
                try:
                    if self.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, name, audited=False):
                        allowed.add(name)
                    break
                except Undecided as undecided:
                    await undecided.decided()
            await pace.turn()
        return frozenset(allowed)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the bits of the operations that it may do with a resource."""
        return sum(
            1 << operation
            for operation in _SUPPORTED[resource_type]
            if self.allows(resource_type, operation, name, audited=False)
        )

    def topic_name(self, named: Any, key: str = "name") -> str | None:
        """Return the name of a topic that a structure names or has the id of; None for an unknown id."""
        topic_id = getattr(named, "topic_id", ZERO_UUID)
        if topic_id == ZERO_UUID:
            return cast("str", getattr(named, key))
        try:
            return self.context.broker.topics.get_by_id(topic_id).name
        except UnknownTopicId:
            return None

    def refused(self, request: Any, error: type[BrokerError], text: str | None = None) -> Any:
        """Return the response to a request, or to a part of it, that is refused."""
        response = run_to_end(self._refusal(request, error_code(error("")), text))
        _set_values(response, self._values)
        return response

    def refusal_of(self, request: Any, error: BrokerError) -> Any:
        """Return the response to a request that an error refuses as a whole.

        Raises:
            ProtocolViolation: the client expects no response: as in Kafka the connection is closed.
        """
        api = self._api
        if api.has_response is not None and not api.has_response(request):
            raise ProtocolViolation(f"a {api.name} request without a response was refused: {error}")
        return self.refused(request, type(error), self.context.error_message(error))

    def _refusal(self, request: Any, code: int, text: str | None) -> Generator[None, Any, Any]:
        api = self._api
        if api.refuse is not None:
            return (yield from resolve(api.refuse)(request, code, text))
        return (yield from refusal(resolve(api.response), self.context.api_version, request, code, text))


def narrowed(request: T, **fields: object) -> T:
    """Return a request, or a part of it, with other fields: what of it is allowed."""
    narrow: T = attrs.evolve(cast("Any", request), **fields)
    return narrow


def without(asked: Sequence[T], denied: Iterable[T]) -> list[T]:
    """Return the elements that are none of `denied`, which are the same objects."""
    refused = set(map(id, denied))
    return [each for each in asked if id(each) not in refused]


def _set_values(message: Any, values: Mapping[str, object]) -> None:
    """Set fields of a message, and of all structures in it, by name."""
    for name in message.__slots__ if values else ():
        if name in values:
            setattr(message, name, values[name])
        elif type(getattr(message, name, None)) is list:
            inner: list[Any] = getattr(message, name)
            for each in inner:
                if attrs.has(cast("Any", type(each))):
                    _set_values(each, values)


class GuardedHandler:
    """A handler with its guard."""

    __slots__ = ("_api", "_authorization", "_authorizer", "_guard", "_handle", "_passes", "_values")

    def __init__(
        self,
        authorization: Authorization,
        api: KafkaApi,
        guard: Guard,
        passes: Passes | None,
        values: Mapping[str, object],
        handle: Handler,
    ) -> None:
        """`values` are those of fields of a refusal, by name, beside the error code."""
        self._values = values
        self._authorization = authorization
        self._authorizer = authorization.authorizer
        self._api = api
        self._guard = guard
        self._passes = passes
        self._handle = handle

    def __call__(self, context: RequestContext, message: Any) -> object:
        """Handle a request as far as it is allowed."""
        passes, known = self._passes, context.known_access
        if passes is not None:
            if (
                known is not None
                and known.version is self._authorizer.version
                and known.principal is context.principal
                and passes(known, message)
                and not self._authorization.logs_grants
            ):
                return self._handle(context, message)
            self._forget_outdated(context)
        access = Access(self._authorization, self._api, context, self._values)
        try:
            guarding = self._guard(access, message)
            served = next(guarding)
            if served is None:
                return self._guard_slowly(access, message, guarding)
            outcome = self._handle(context, served)
            if isinstance(outcome, Awaitable):
                return self._finish_later(access, message, guarding, cast("Awaitable[object]", outcome))
        except StopIteration as done:
            return done.value
        except Undecided as undecided:
            return self._guard_once_decided(access, message, undecided)
        except BrokerError as error:
            return access.refusal_of(message, error)
        return self._finish(access, message, guarding, outcome)

    def _forget_outdated(self, context: RequestContext) -> None:
        """Note again what is known to be allowed, unless each request is to be asked for, or logged."""
        version, known = self._authorizer.version, context.known_access
        if version is None or self._authorization.logs_grants:
            context.known_access = None
        elif known is None or known.version is not version or known.principal is not context.principal:
            context.known_access = KnownAccess(version, context.principal)

    async def _guard_once_decided(self, access: Access, message: Any, undecided: Undecided) -> object:
        await undecided.decided()
        return await self._guard_slowly(access, message, self._guard(access, message))

    async def _guard_slowly(self, access: Access, message: Any, guarding: Generator[Any, Any, Any]) -> object:
        """Continue a guard whose work is long, or whose decisions take time."""
        while True:
            try:
                served = await _next_request(guarding)
            except Undecided as undecided:
                await undecided.decided()
                guarding = self._guard(access, message)
            except BrokerError as error:
                return access.refusal_of(message, error)
            else:
                break
        if isinstance(served, _Done):
            return served.response
        outcome = self._handle(access.context, served)
        if isinstance(outcome, Awaitable):
            outcome = await cast("Awaitable[object]", outcome)
        return await self._finish_slowly(access, message, guarding, outcome)

    def _finish(
        self, access: Access, message: Any, guarding: Generator[Any, Any, Any], outcome: object
    ) -> object:
        try:
            guarding.send(outcome)
        except StopIteration as done:
            return done.value
        except Undecided as undecided:
            return self._finish_once_decided(access, message, undecided, outcome)
        # A step of long work.
        return self._finish_slowly(access, message, guarding, outcome, is_sent=True)

    async def _finish_later(
        self, access: Access, message: Any, guarding: Generator[Any, Any, Any], outcome: Awaitable[object]
    ) -> object:
        return await self._finish_slowly(access, message, guarding, await outcome)

    async def _finish_once_decided(
        self, access: Access, message: Any, undecided: Undecided, outcome: object
    ) -> object:
        await undecided.decided()
        guarding = self._guard(access, message)
        await _next_request(guarding)
        return await self._finish_slowly(access, message, guarding, outcome)

    async def _finish_slowly(
        self,
        access: Access,
        message: Any,
        guarding: Generator[Any, Any, Any],
        outcome: object,
        *,
        is_sent: bool = False,
    ) -> object:
        pace = Pace()
        try:
            if not is_sent:
                guarding.send(outcome)
            while True:
                await pace.turn()
                next(guarding)
        except StopIteration as done:
            return done.value
        except Undecided as undecided:
            return await self._finish_once_decided(access, message, undecided, outcome)


class _Done:
    """The response of a guard that has not yielded a request."""

    def __init__(self, response: object) -> None:
        self.response = response


async def _next_request(guarding: Generator[Any, Any, Any]) -> Any:
    """Return what a guard yields for the handler, or `_Done` if it returns a response instead."""
    pace = Pace()
    while True:
        try:
            served = next(guarding)
        except StopIteration as done:
            return _Done(done.value)
        if served is not None:
            return served
        await pace.turn()
