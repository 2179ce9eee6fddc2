"""Quotas around the handlers of Kafka's protocol: what a request counts against, and its throttle time.

A client that has used up a quota gets its response at once, with the throttle time, and its next request
waits until then (KIP-219). A Fetch is answered without records instead, and does not count.

Source: `KafkaApis`, `ControllerApis` and `RequestHandlerHelper` of Apache Kafka.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from tidelog.kernel.config.types import INT_MAX
from tidelog.kernel.seams.quotas import ClientQuotaType
from tidelog.kernel.seams.requests import Throttled
from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi, resolve
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages import api as a
from tidelog.plugins.schema import TooManyElements, small_encoder
from tidelog.plugins.schema.types import size_of, total_size

if TYPE_CHECKING:
    from tidelog.kernel.request.client_quotas import ClientQuotas, QuotaAccount
    from tidelog.kernel.seams.wire import Part
    from tidelog.plugins.protocol_kafka.messages.fetch import FetchRequest, FetchResponse

STRICT_SINCE: Final[Mapping[int, int]] = {
    a.CREATE_TOPICS.key: 6,
    a.DELETE_TOPICS.key: 5,
    a.CREATE_PARTITIONS.key: 3,
    # For topics that are created because a client asks for them.
    a.METADATA.key: 0,
}
"""Versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599); earlier ones are throttled afterwards."""
EXEMPT: Final = frozenset({a.WRITE_TXN_MARKERS.key})
"""What brokers send to each other."""
LENGTH_BYTES: Final = 4
PERCENT: Final = 100
BYTES_OF_A_PARTITION: Final = 64
"""What a partition takes in a response beside its records, where there are too many to encode them twice."""


def limited(quotas: ClientQuotas, api: KafkaApi, version: int, handle: Handler) -> Handler:
    """Return a handler whose clients are throttled; itself if it counts against no quota that is enforced."""
    enforced = quotas.enforced
    if api.key == a.PRODUCE.key and enforced & {ClientQuotaType.PRODUCE, ClientQuotaType.REQUEST}:
        return ProduceLimit(quotas, handle)
    if api.key == a.FETCH.key and enforced & {ClientQuotaType.FETCH, ClientQuotaType.REQUEST}:
        return FetchLimit(quotas, handle, small_encoder(resolve(api.response), version))
    if api.key in STRICT_SINCE and ClientQuotaType.CONTROLLER_MUTATION in enforced:
        throttles = api.key != a.METADATA.key
        return MutationLimit(quotas, handle, strict=version >= STRICT_SINCE[api.key], throttles=throttles)
    if api.key in EXEMPT or ClientQuotaType.REQUEST not in enforced:
        return handle
    return RequestLimit(quotas, handle)


class RequestLimit:
    """A handler that counts against `request_percentage`: the time of the event loop that it takes."""

    def __init__(self, quotas: ClientQuotas, handle: Handler) -> None:
        self._quotas = quotas
        self._handle = handle

    def __call__(self, context: RequestContext, message: Any) -> object:
        """Handle a request; a client that is throttled gets an awaitable of `Throttled`."""
        started = perf_counter()
        outcome = self._handle(context, message)
        seconds = perf_counter() - started
        if isinstance(outcome, Awaitable):
            return self._finish_later(context, message, cast("Awaitable[object]", outcome), seconds)
        done = self._finish(context, message, outcome, seconds)
        return _later(done) if type(done) is Throttled else done

    async def _finish_later(
        self, context: RequestContext, message: Any, outcome: Awaitable[object], seconds: float
    ) -> object:
        timed = _Timed(outcome, seconds)
        response = await timed
        return self._finish(context, message, response, timed.seconds)

    def _finish(self, context: RequestContext, message: Any, outcome: object, seconds: float) -> object:
        # A stage of a plugin may throttle, too: the longest time counts.
        response, stage_ms = outcome, 0
        if type(outcome) is Throttled:
            response, stage_ms = outcome.response, math.ceil(outcome.seconds * 1000)
        own_ms = self.charge(context, message, response, seconds)
        if not own_ms:
            return outcome
        throttle_ms = max(own_ms, stage_ms)
        return Throttled(self.throttled(context, message, response, throttle_ms), throttle_ms / 1000)

    def charge(self, context: RequestContext, message: Any, response: Any, seconds: float) -> int:
        """Count a request and its response; return for how many milliseconds its client is throttled."""
        account = self._account(ClientQuotaType.REQUEST, context)
        return 0 if account is None else account.charge(seconds * PERCENT)

    def throttled(self, context: RequestContext, message: Any, response: Any, throttle_ms: int) -> object:
        """Return the response with its throttle time, where it has such a field."""
        if hasattr(response, "throttle_time_ms"):
            # The handler may keep its own.
            response = copy.copy(response)
            response.throttle_time_ms = throttle_ms
        return response

    def _account(self, quota_type: ClientQuotaType, context: RequestContext) -> QuotaAccount | None:
        return self._quotas.account(quota_type, context.principal, context.client_id)


class ProduceLimit(RequestLimit):
    """Produce: the bytes of the request. Without acks its time is exempt, but the connection is muted."""

    def charge(self, context: RequestContext, message: Any, response: Any, seconds: float) -> int:
        """Count the bytes, and the time."""
        account = self._account(ClientQuotaType.PRODUCE, context)
        throttle_ms = 0 if account is None else account.charge(context.request_bytes)
        if message.acks:
            throttle_ms = max(throttle_ms, super().charge(context, message, response, seconds))
        return throttle_ms


class FetchLimit(RequestLimit):
    """Fetch of consumers: the bytes of the response. Followers are exempt."""

    def __init__(
        self, quotas: ClientQuotas, handle: Handler, encode: Callable[[Any, list[Part]], None]
    ) -> None:
        """`encode` is that of responses."""
        super().__init__(quotas, handle)
        self._encode = encode

    def __call__(self, context: RequestContext, message: FetchRequest) -> object:
        """Handle a request, which gets no more bytes than can be had without being throttled."""
        if _is_follower(message):
            return self._handle(context, message)
        account = self._account(ClientQuotaType.FETCH, context)
        if account is not None:
            most = int(min(message.max_bytes, context.fetch_max_bytes, account.window_amount, INT_MAX))
            message.max_bytes, message.min_bytes = most, min(message.min_bytes, most)
        return super().__call__(context, message)

    def charge(self, context: RequestContext, message: Any, response: Any, seconds: float) -> int:
        """Count the bytes, and the time; a response that is throttled has none."""
        throttle_ms = super().charge(context, message, response, seconds)
        account = self._account(ClientQuotaType.FETCH, context)
        if account is not None:
            size = self._size(response)
            throttle_ms = max(throttle_ms, account.charge(size))
            if throttle_ms:
                account.refund(size)
        return throttle_ms

    def throttled(
        self, context: RequestContext, message: FetchRequest, response: FetchResponse, throttle_ms: int
    ) -> object:
        """Return a response without partitions; the session is as if there had been none."""
        session_id, sessions = response.session_id, context.fetch_sessions
        if message.session_id != session_id:
            # The request has opened it. Its client takes the response as an empty one, and asks for it again.
            sessions.remove(session_id)
            session_id = 0
        elif (session := sessions.get(session_id)) is not None:
            session.repeat(response.responses)
        return type(response)(
            throttle_time_ms=throttle_ms, error_code=response.error_code, session_id=session_id, responses=[]
        )

    def _size(self, response: FetchResponse) -> int:
        parts: list[Part] = []
        try:
            self._encode(response, parts)
        except TooManyElements:
            partitions = [each for topic in response.responses for each in topic.partitions]
            records = sum(size_of(each.records) for each in partitions if each.records)
            return records + BYTES_OF_A_PARTITION * len(partitions)
        return LENGTH_BYTES + total_size(parts)


class MutationLimit(RequestLimit):
    """What creates and deletes partitions: `MutationAccount` is in the context while the handler runs."""

    def __init__(self, quotas: ClientQuotas, handle: Handler, *, strict: bool, throttles: bool) -> None:
        """With `throttles` the connection is muted while the quota is used up."""
        super().__init__(quotas, handle)
        self._strict = strict
        self._throttles = throttles

    def __call__(self, context: RequestContext, message: Any) -> object:
        """Handle a request."""
        context.mutations = self._quotas.mutations(context.principal, context.client_id, strict=self._strict)
        return super().__call__(context, message)

    def charge(self, context: RequestContext, message: Any, response: Any, seconds: float) -> int:
        """Count the time; partitions were counted by the handler."""
        account, context.mutations = context.mutations, None
        throttle_ms = super().charge(context, message, response, seconds)
        return (
            max(throttle_ms, account.throttle_ms) if account is not None and self._throttles else throttle_ms
        )


class _Timed:
    """An awaitable that measures for how many seconds the event loop works on it, without its waits."""

    def __init__(self, outcome: Awaitable[object], seconds: float) -> None:
        """`seconds` are those before."""
        self._outcome = outcome
        self.seconds = seconds

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._outcome.__await__()
        step: Callable[[], Any] = partial(steps.send, None)
        while True:
            started = perf_counter()
            try:
                yielded = step()
            except StopIteration as done:
                return done.value
            finally:
                self.seconds += perf_counter() - started
            try:
                step = partial(steps.send, (yield yielded))
            except BaseException as error:
                step = partial(steps.throw, error)


def _is_follower(request: FetchRequest) -> bool:
    return max(request.replica_id, request.replica_state.replica_id) >= 0


async def _later(throttled: Throttled) -> Throttled:
    return throttled
