"""What clients have used of their quotas, and for how long they are throttled.

Source: `ClientQuotaManager`, `ClientRequestQuotaManager`, `ControllerMutationQuotaManager` of Apache Kafka.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final, TypeVar, cast

import trio

from tidelog.kernel.errors import ThrottlingQuotaExceeded
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.rates import SampledRate, SampleWindows, TokenBucket
from tidelog.kernel.seams.quotas import ClientQuotaType, QuotaCallback, QuotaLimit

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange, MetadataImage
    from tidelog.kernel.seams.requests import Principal

MAX_RATES: Final = 10_000
"""Most rates that are remembered, some 20 MB; with more the one that was used longest ago is forgotten.

A client that comes with ever new client ids frees others by that, and never throttles them.
"""
IDLE_DROPPED_AT_ONCE: Final = 2
"""For each new rate so many are dropped that are as good as new, so that the table shrinks."""
MAX_THROTTLE_MS: Final = 2**31 - 1
"""The largest throttle time that a response has; a limit that is tiny, or 0, would have a longer one."""
ERROR_INTERVAL_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)

M = TypeVar("M", SampledRate, TokenBucket)


class QuotaAccount:
    """A limit that a request counts against, and what was used of it before."""

    __slots__ = ("_clock", "_most_seconds", "_per_second", "_rate", "_windows")

    def __init__(
        self,
        rate: SampledRate,
        per_second: float,
        windows: SampleWindows,
        most_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._rate = rate
        self._per_second = per_second
        self._windows = windows
        self._most_seconds = most_seconds
        self._clock = clock

    @property
    def window_amount(self) -> float:
        """How much may be used at once after a while without anything: more is always throttled."""
        return self._per_second * self._windows.whole_seconds

    def charge(self, amount: float) -> int:
        """Count an amount; return for how many milliseconds the client is throttled, 0 for not at all."""
        now = self._clock()
        self._rate.add(amount, now)
        return _milliseconds(min(self._rate.excess_seconds(self._per_second, now), self._most_seconds))

    def refund(self, amount: float) -> None:
        """Take back an amount, which the client does not get after all."""
        self._rate.add(-amount, self._clock())


class MutationAccount:
    """How many partitions a client may create and delete, for the time of one request (KIP-599)."""

    __slots__ = ("_bucket", "_charged_at", "_clock", "_per_second", "_seconds", "_strict")

    def __init__(
        self, bucket: TokenBucket, per_second: float, clock: Callable[[], float], *, strict: bool
    ) -> None:
        self._bucket = bucket
        self._per_second = per_second
        self._clock = clock
        self._strict = strict
        self._seconds = self._charged_at = 0.0

    def charge(self, partitions: int) -> None:
        """Count partitions before they are created or deleted.

        Raises:
            ThrottlingQuotaExceeded: the quota was used up before, and the client's version of the API knows
                the error. One that does not know it is only throttled.
        """
        now = self._clock()
        if not self._strict:
            self._bucket.take(partitions, self._per_second, now)
        seconds = self._bucket.excess_seconds(self._per_second, now)
        if seconds:
            self._seconds, self._charged_at = seconds, now
            if self._strict:
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
        elif self._strict:
            # As in Kafka the last request may take more than there is: one of many partitions is served, too.
            self._bucket.take(partitions, self._per_second, now)

    @property
    def throttle_ms(self) -> int:
        """For how many milliseconds the client is throttled from now on."""
        return _milliseconds(max(0.0, self._seconds - (self._clock() - self._charged_at)))


class ClientQuotas:
    """Asks a quota callback for limits, and measures what is used of them.

    `enforced` is what is limited now. As long as it is empty no request costs anything: the wire protocol
    composes what limits requests only then (`when_enforced_changes`).
    """

    def __init__(
        self,
        name: str,
        callback: QuotaCallback,
        windows: SampleWindows,
        mutation_windows: SampleWindows,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        """`name` is the callback's in the configuration, for the log.

        `mutation_windows` are those of CONTROLLER_MUTATION; `clock` returns seconds.
        """
        self._name = name
        self.enforced = frozenset[ClientQuotaType]()
        self._callback = callback
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._clock = clock
        self._measured: OrderedDict[tuple[ClientQuotaType, Hashable], SampledRate | TokenBucket] = (
            OrderedDict()
        )
        self._listeners: list[Callable[[], None]] = []
        self._errors = RateLimit(ERROR_INTERVAL_SECONDS)

    def load(self, image: MetadataImage) -> None:
        """Take over the image as a whole."""
        self._callback.load(image)
        self._refresh()

    async def follow(self, change: ImageChange) -> None:
        """Take over a change of the image."""
        await self._callback.follow(change)
        self._refresh()

    def when_enforced_changes(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after each change of `enforced`."""
        self._listeners.append(listener)

    def account(
        self, quota_type: ClientQuotaType, principal: Principal, client_id: str | None
    ) -> QuotaAccount | None:
        """Return what a request counts against, None without a limit.

        `quota_type` is PRODUCE or FETCH, whose amounts are bytes, or REQUEST with seconds times 100.
        """
        limit = self._limit(quota_type, principal, client_id)
        if limit is None:
            return None
        rate = self._find(quota_type, limit.shared_by, SampledRate, self._windows)
        # As in Kafka a client that uses up the processor is served again after a sample.
        most = self._windows.seconds if quota_type is ClientQuotaType.REQUEST else math.inf
        return QuotaAccount(rate, limit.per_second, self._windows, most, self._clock)

    def mutations(
        self, principal: Principal, client_id: str | None, *, strict: bool
    ) -> MutationAccount | None:
        """Return what creating and deleting partitions counts against, None without a limit.

        `strict`: what exceeds it is refused; else the client is throttled afterwards.
        """
        limit = self._limit(ClientQuotaType.CONTROLLER_MUTATION, principal, client_id)
        if limit is None:
            return None
        kind = ClientQuotaType.CONTROLLER_MUTATION
        bucket = self._find(kind, limit.shared_by, TokenBucket, self._mutation_windows)
        return MutationAccount(bucket, limit.per_second, self._clock, strict=strict)

    def _limit(
        self, quota_type: ClientQuotaType, principal: Principal, client_id: str | None
    ) -> QuotaLimit | None:
        if quota_type not in self.enforced:
            return None
        try:
            return self._callback.limit(quota_type, principal, client_id or "")
        except Exception as error:
            kind = type(error).__name__
            if self._errors.admit(kind) is not None:
                _log.error(
                    "the quota callback %s failed, so a request has no limit: %s: %s",
                    self._name,
                    kind,
                    error,
                    exc_info=error,
                )
            return None

    def _find(
        self, quota_type: ClientQuotaType, shared_by: Hashable, kind: type[M], windows: SampleWindows
    ) -> M:
        key = quota_type, shared_by
        found = self._measured.get(key)
        if found is not None:
            self._measured.move_to_end(key)
            return cast("M", found)
        self._make_room()
        made = self._measured[key] = kind(windows)
        return made

    def _make_room(self) -> None:
        measured, now = self._measured, self._clock()
        if len(measured) >= MAX_RATES:
            measured.popitem(last=False)
        for _ in range(IDLE_DROPPED_AT_ONCE):
            oldest = next(iter(measured), None)
            if oldest is None or not measured[oldest].is_idle(now):
                return
            del measured[oldest]

    def _refresh(self) -> None:
        enforced = frozenset(self._callback.types)
        if enforced != self.enforced:
            self.enforced = enforced
            for listener in self._listeners:
                listener()


def _milliseconds(seconds: float) -> int:
    # Half a millisecond is rounded up, as Java does.
    return int(min(seconds * 1000, MAX_THROTTLE_MS) + 0.5)
