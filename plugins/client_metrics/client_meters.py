"""The newest metrics of each client instance, as meters beside those of the broker.

`org.apache.kafka.producer.record.send.total` is `kafka_client_producer_record_send_total`, with the labels
`client_id`, `client_instance_id` and the attributes that the client gives, such as its group or a topic. The
prefix keeps clients from reporting what looks like a metric of the broker.

An instance is forgotten when it was silent for `SILENT_INTERVALS` of its intervals, also one that has ended:
its last values are exported, too.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.seams.meters import Labels, MeterFamily, MeterKind, MeterSample
from tidelog.plugins.client_metrics.otlp import MAX_POINTS, Point, decode_metrics

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.client_telemetry import PushedMetrics

MAX_SERIES: Final = 100_000
"""Values of all clients together: some 40 MB. Values that are new beyond that are counted, and left out."""
MAX_SERIES_OF_CLIENT: Final = MAX_POINTS
"""Values of one client instance, so that no one takes the room of all."""
MAX_NAMES: Final = 2_000
"""Names of metrics, of which Kafka's clients have some hundreds together; further ones are left out."""
SILENT_INTERVALS: Final = 3
MIN_EXPIRY_S: Final = 60.0
"""An exporter has read the values of a client by then."""
DECODING_THREADS: Final = 1
PREFIX: Final = "kafka_client_"

_Series = tuple[str, Labels]


class _Instance:
    """The values of one client instance, by name and labels."""

    def __init__(self) -> None:
        self.values: dict[_Series, float] = {}
        self.expires_at = 0.0


class ClientMeters:
    """Receives pushes on the event loop, and is read in a thread by exporters."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._instances: dict[uuid.UUID, _Instance] = {}
        self._kinds: dict[str, MeterKind] = {}
        self._series = self._pushes = self._dropped = 0
        self._decoding = trio.CapacityLimiter(DECODING_THREADS)
        self._lock = threading.Lock()

    async def __call__(self, pushed: PushedMetrics) -> None:
        """Take a push.

        Raises:
            InvalidMetrics: it cannot be decoded; the client gets INVALID_RECORD.
        """
        # In a thread: a client may push for a second's worth of decoding.
        await trio.to_thread.run_sync(self.take, pushed, limiter=self._decoding)

    def take(self, pushed: PushedMetrics) -> None:
        """Decode a push and keep its values, blocking.

        Raises:
            InvalidMetrics: it cannot be decoded.
        """
        decoded = decode_metrics(pushed.payload)
        with self._lock:
            self._pushes += 1
            self._dropped += decoded.skipped
            self._forget_silent()
            instance = self._instances.setdefault(pushed.client_instance_id, _Instance())
            silence_s = max(MIN_EXPIRY_S, SILENT_INTERVALS * pushed.interval_ms / 1000)
            instance.expires_at = self._clock() + silence_s
            for point in decoded.points:
                self._set(instance, pushed, point)

    def families(self) -> Iterable[MeterFamily]:
        """Return the values of all clients, and what became of their pushes."""
        with self._lock:
            self._forget_silent()
            samples: dict[str, list[MeterSample]] = {}
            for instance in self._instances.values():
                for (name, labels), value in instance.values.items():
                    samples.setdefault(name, []).append(MeterSample(value, labels))
            kinds, clients = self._kinds.copy(), len(self._instances)
            pushes, dropped = self._pushes, self._dropped
        yield _family("tidelog_client_metrics_clients", MeterKind.GAUGE, "Clients that push metrics", clients)
        yield _family("tidelog_client_metrics_pushes_total", MeterKind.COUNTER, "Pushes of clients", pushes)
        yield _family(
            "tidelog_client_metrics_dropped_total",
            MeterKind.COUNTER,
            "Values that were left out: histograms, and what is beyond the limits",
            dropped,
        )
        for name, values in sorted(samples.items()):
            yield MeterFamily(name, kinds[name], "Pushed by clients (KIP-714)", values)

    def _set(self, instance: _Instance, pushed: PushedMetrics, point: Point) -> None:
        kind = MeterKind.COUNTER if point.is_sum else MeterKind.GAUGE
        name = meter_name(point.name, kind)
        if name not in self._kinds and len(self._kinds) < MAX_NAMES:
            self._kinds[name] = kind
        series = name, _labels(pushed, point)
        is_new = series not in instance.values
        is_full = self._series >= MAX_SERIES or len(instance.values) >= MAX_SERIES_OF_CLIENT
        if self._kinds.get(name) is not kind or (is_new and is_full):
            self._dropped += 1
            return
        self._series += is_new
        before = instance.values.get(series, 0) if point.is_delta else 0
        instance.values[series] = before + point.value

    def _forget_silent(self) -> None:
        now = self._clock()
        for each in [each for each, found in self._instances.items() if found.expires_at < now]:
            self._series -= len(self._instances.pop(each).values)
        if not self._instances:
            self._kinds.clear()


def _family(name: str, kind: MeterKind, text: str, value: float) -> MeterFamily:
    return MeterFamily(name, kind, text, [MeterSample(value)])


def meter_name(name: str, kind: MeterKind) -> str:
    """Return the name of the meter for a metric of a client."""
    cleaned = PREFIX + _cleaned(name.removeprefix("org.apache.kafka.").removeprefix("client."))
    if kind is MeterKind.COUNTER and not cleaned.endswith(("_total", "_count")):
        return cleaned + "_total"
    return cleaned


def _labels(pushed: PushedMetrics, point: Point) -> Labels:
    own = {
        "client_id": pushed.attributes.get("client_id", ""),
        "client_instance_id": str(pushed.client_instance_id),
    }
    # What the broker knows of the client takes precedence over what the client says.
    return tuple(sorted({**{_cleaned(key): value for key, value in point.attributes.items()}, **own}.items()))


@lru_cache(maxsize=4096)
def _cleaned(name: str) -> str:
    """Return a name that Prometheus takes."""
    cleaned = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned
