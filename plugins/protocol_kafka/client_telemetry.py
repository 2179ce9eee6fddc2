"""Metrics that clients push (KIP-714): who is subscribed to which, and when a push is accepted.

A receiver is a function that a plugin returns from `tidelog_client_telemetry_receivers`. It is called on the
event loop with each push, so it must return soon, or return an awaitable. If that or it raises, the client
gets INVALID_RECORD.

Source: KIP-714; the limits and the order of the checks are those of Apache Kafka 4.4.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import trio

from tidelog.kernel.checksum import crc32c
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.kernel.cluster.resource_configs import ResourceConfigs
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.seams.meters import MeterFamily
    from tidelog.kernel.seams.wire import Peer

_log = logging.getLogger(__name__)

MAX_INSTANCES: Final = 16_384
"""Client instances that are remembered; the one that was silent for longest is forgotten first."""
MIN_EXPIRY_MS: Final = 60_000
SILENT_INTERVALS: Final = 3
"""An instance is forgotten after so many push intervals of silence, and `MIN_EXPIRY_MS` at least."""
UNPACKING_THREADS: Final = 2
"""A codec may take 128 MiB of memory, the window of a zstd frame, however little is decompressed."""
ALL_METRICS: Final = "*"


class PushedMetrics(NamedTuple):
    """What a client pushed: `payload` is OpenTelemetry's MetricsData in protocol buffers, decompressed.

    `terminating`: the client instance ends, and pushes nothing more. `attributes` describe the client, by the
    names that `match` of a subscription uses, such as `client_software_name`. The next push is expected in
    `interval_ms`.
    """

    client_instance_id: uuid.UUID
    attributes: Mapping[str, str]
    peer: Peer
    terminating: bool
    payload: bytes
    interval_ms: int


TelemetryReceiver: TypeAlias = Callable[[PushedMetrics], Awaitable[None] | None]


@runtime_checkable
class MeteringReceiver(Protocol):
    """A receiver that is a source of meters as well, so that what clients push is exported."""

    def families(self) -> Iterable[MeterFamily]:
        """Return all values of this moment, in a thread; see `MeterSource`."""
        ...


class MetricsSubscription(NamedTuple):
    """The metrics that a client is to push, as prefixes of their names, and the interval in milliseconds."""

    id: int
    metrics: Sequence[str]
    interval_ms: int


class _Instance:
    """State of one client instance; times are in milliseconds, 0 for never."""

    def __init__(self, subscription: MetricsSubscription, version: int) -> None:
        self.subscription = subscription
        self.version = version
        self.seen_ms = self.got_ms = self.pushed_ms = 0
        self.terminating = False
        self.last_error = ErrorCode.NONE

    def may_get(self, now_ms: int) -> bool:
        """Return whether it may ask for its subscription now; it may at once after some errors."""
        in_time = now_ms - max(self.got_ms, self.pushed_ms) >= self.subscription.interval_ms
        if in_time:
            self.got_ms = now_ms
        return in_time or self.last_error in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )

    def may_push(self, now_ms: int) -> bool:
        """Return whether it may push now: once after it got its subscription, then once in an interval."""
        allowed = self.got_ms > self.pushed_ms or now_ms - self.pushed_ms >= self.subscription.interval_ms
        if allowed:
            self.pushed_ms = now_ms
        return allowed


class ClientTelemetry:
    """Client instances of one broker, and the receivers of their metrics.

    `unpacking` limits the threads that decompress metrics.
    """

    def __init__(self, receivers: Iterable[TelemetryReceiver] = ()) -> None:
        self._receivers = tuple(receivers)
        self.unpacking = trio.CapacityLimiter(UNPACKING_THREADS)
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()

    async def get(
        self, instance_id: bytes, attributes: Mapping[str, str], configs: ResourceConfigs, now_ms: int
    ) -> MetricsSubscription | ErrorCode:
        """Return the subscription of an instance, or THROTTLING_QUOTA_EXCEEDED if it asks too often."""
        instance = await self._instance(instance_id, attributes, configs, now_ms)
        if not instance.may_get(now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance.subscription

    async def check_push(
        self,
        instance_id: bytes,
        subscription_id: int,
        attributes: Mapping[str, str],
        configs: ResourceConfigs,
        now_ms: int,
        *,
        terminating: bool,
    ) -> ErrorCode:
        """Return NONE if an instance may push metrics of that subscription now, and the error otherwise."""
        instance = await self._instance(instance_id, attributes, configs, now_ms)
        ended, instance.terminating = instance.terminating, terminating
        if ended:
            code = ErrorCode.INVALID_REQUEST
        elif not instance.may_push(now_ms) and not terminating:
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription.id:
            code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        else:
            code = ErrorCode.NONE
        instance.last_error = code
        return code

    def record_error(self, instance_id: bytes, code: ErrorCode) -> None:
        """Record why a push was refused after all."""
        instance = self._instances.get(instance_id)
        if instance is not None:
            instance.last_error = code

    def interval_ms(self, instance_id: bytes) -> int:
        """Return the interval in which an instance pushes."""
        instance = self._instances.get(instance_id)
        # It may have been forgotten while the push was decompressed.
        if instance is None:
            return keys.CLIENT_METRICS_INTERVAL_MS.default
        return instance.subscription.interval_ms

    async def deliver(self, pushed: PushedMetrics) -> bool:
        """Call the receivers; return whether none of them raised."""
        fine = True
        for receiver in self._receivers:
            try:
                outcome = receiver(pushed)
                if outcome is not None:
                    await outcome
            # One receiver must not keep the others from their metrics.
            except Exception:
                _log.exception("a receiver of client metrics failed: %s", receiver)
                fine = False
        return fine

    def forget(self, instance_id: bytes) -> None:
        """Forget an instance whose connection has ended."""
        self._instances.pop(instance_id, None)

    async def _instance(
        self, instance_id: bytes, attributes: Mapping[str, str], configs: ResourceConfigs, now_ms: int
    ) -> _Instance:
        """Return an instance, a new one if its subscription may have changed."""
        instance = self._instances.get(instance_id)
        if instance is None or instance.version != configs.version or _expired(instance, now_ms):
            subscription = await _subscription(instance_id, attributes, configs)
            instance = self._instances[instance_id] = _Instance(subscription, configs.version)
        instance.seen_ms = now_ms
        self._instances.move_to_end(instance_id)
        if len(self._instances) > MAX_INSTANCES:
            self._instances.popitem(last=False)
        return instance


def _expired(instance: _Instance, now_ms: int) -> bool:
    silence = max(MIN_EXPIRY_MS, SILENT_INTERVALS * instance.subscription.interval_ms)
    return now_ms - instance.seen_ms >= silence


async def _subscription(
    instance_id: bytes, attributes: Mapping[str, str], configs: ResourceConfigs
) -> MetricsSubscription:
    """Return the union of all subscriptions that match the client, with their shortest interval."""
    metrics: set[str] = set()
    interval_ms = keys.CLIENT_METRICS_INTERVAL_MS.default
    for name in configs.names("client-metrics"):
        config = configs.find("client-metrics", name)
        if config is not None and await _is_meant(config, attributes):
            metrics.update(config[keys.CLIENT_METRICS_METRICS])
            interval_ms = min(interval_ms, config[keys.CLIENT_METRICS_INTERVAL_MS])
    wanted = [ALL_METRICS] if ALL_METRICS in metrics else sorted(metrics)
    digest = crc32c(f"{wanted}{interval_ms}".encode()) ^ crc32c(instance_id)
    return MetricsSubscription(digest - 2**32 if digest >= 2**31 else digest, wanted, interval_ms)


async def _is_meant(config: TopicConfig, attributes: Mapping[str, str]) -> bool:
    for each in config[keys.CLIENT_METRICS_MATCH]:
        if not await each.matches(attributes):
            return False
    return True
