"""Kafka's `RequestMetrics`: how many requests of each API came, how many failed, and how long they took.

Requests are counted always, in their route. The rest is measured around the handler while an exporter
listens: errors, bytes and times. A Produce request with one batch costs 2.6 µs more then (on a slow core).
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from tidelog.kernel.seams.meters import Labels, MeterFamily, MeterKind, MeterSample
from tidelog.kernel.seams.requests import Throttled
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi
    from tidelog.plugins.protocol_kafka.client_telemetry import MeteringReceiver
    from tidelog.plugins.protocol_kafka.context import RequestContext

LAST_TIMES: Final = 1024
"""Quantiles are those of so many requests of an API, the last ones."""
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka."""
NO_ERROR: Final = "NONE"


class VersionMeter:
    """The requests of one version of one API."""

    __slots__ = ("api", "requests", "version")

    def __init__(self, api: ApiMeter, version: int) -> None:
        self.api = api
        self.version = version
        self.requests = 0


class ApiMeter:
    """What was measured of one API while an exporter listened."""

    __slots__ = ("_next", "count", "errors", "last_ms", "name", "request_bytes", "total_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.request_bytes = 0
        self.total_ms = 0.0
        self.errors: dict[str, int] = {}
        self.last_ms = array("d")
        self._next = 0

    def record(self, seconds: float, size_bytes: int, error: str) -> None:
        """Note a request that was answered, with the name of its error."""
        elapsed_ms = seconds * 1000
        self.count += 1
        self.request_bytes += size_bytes
        self.total_ms += elapsed_ms
        self.errors[error] = self.errors.get(error, 0) + 1
        if len(self.last_ms) < LAST_TIMES:
            self.last_ms.append(elapsed_ms)
        else:
            self.last_ms[self._next] = elapsed_ms
            self._next = (self._next + 1) % LAST_TIMES

    def quantiles(self) -> Iterator[tuple[float, float]]:
        """Yield each quantile and its milliseconds."""
        ordered = sorted(self.last_ms)
        for quantile in QUANTILES if ordered else ():
            yield quantile, ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]


class RequestMeters:
    """The meters of all APIs of one broker, and after them those that its clients push."""

    def __init__(self, receivers: Sequence[MeteringReceiver] = ()) -> None:
        self._receivers = receivers
        self._apis: dict[str, ApiMeter] = {}
        self._versions: dict[tuple[str, int], VersionMeter] = {}

    def of(self, api: KafkaApi, version: int) -> VersionMeter:
        """Return the meter of one version of an API."""
        of_api = self._apis.setdefault(api.name, ApiMeter(api.name))
        return self._versions.setdefault((api.name, version), VersionMeter(of_api, version))

    def families(self) -> Iterable[MeterFamily]:
        """Return counts, errors and times, by the names of Kafka."""
        apis, versions = list(self._apis.values()), list(self._versions.values())
        yield MeterFamily(
            "kafka_network_requestmetrics_requests_total",
            MeterKind.COUNTER,
            "Requests that came",
            [
                MeterSample(each.requests, (*_named(each.api), ("version", str(each.version))))
                for each in versions
            ],
        )
        measured = [each for each in apis if each.count]
        yield MeterFamily(
            "kafka_network_requestmetrics_errors_total",
            MeterKind.COUNTER,
            "Answers by their error, the first of each, while an exporter listens",
            [
                MeterSample(count, (*_named(each), ("error", error)))
                for each in measured
                for error, count in each.errors.copy().items()
            ],
        )
        yield _counter(measured, "requestbytes_total", "Bytes of requests", lambda each: each.request_bytes)
        yield _counter(measured, "totaltimems_count", "Requests that were timed", lambda each: each.count)
        yield _counter(measured, "totaltimems_sum", "Milliseconds of all of them", lambda each: each.total_ms)
        yield MeterFamily(
            "kafka_network_requestmetrics_totaltimems",
            MeterKind.GAUGE,
            f"Milliseconds from a request to its answer, waits included, of the last {LAST_TIMES}",
            [
                MeterSample(elapsed_ms, (*_named(each), ("quantile", str(quantile))))
                for each in measured
                for quantile, elapsed_ms in each.quantiles()
            ],
        )
        for receiver in self._receivers:
            yield from receiver.families()


def _named(meter: ApiMeter) -> Labels:
    return (("request", "FetchConsumer" if meter.name == "Fetch" else meter.name),)


def _counter(
    meters: Iterable[ApiMeter], name: str, text: str, value: Callable[[ApiMeter], float]
) -> MeterFamily:
    samples = [MeterSample(value(each), _named(each)) for each in meters]
    return MeterFamily(f"kafka_network_requestmetrics_{name}", MeterKind.COUNTER, text, samples)


class TimedHandler:
    """A handler whose requests are timed."""

    __slots__ = ("_handle", "_meter")

    def __init__(self, handle: Handler, meter: ApiMeter) -> None:
        self._handle = handle
        self._meter = meter

    def __call__(self, context: RequestContext, message: Any) -> object:
        """Handle a request."""
        started, size_bytes = perf_counter(), context.request_bytes
        outcome = self._handle(context, message)
        if isinstance(outcome, Awaitable):
            return self._finish_later(cast("Awaitable[object]", outcome), started, size_bytes)
        self._meter.record(perf_counter() - started, size_bytes, first_error(outcome))
        return outcome

    async def _finish_later(self, outcome: Awaitable[object], started: float, size_bytes: int) -> object:
        response = await outcome
        answer = response.response if type(response) is Throttled else response
        self._meter.record(perf_counter() - started, size_bytes, first_error(answer))
        return response


def first_error(response: Any) -> str:
    """Return the name of an error in a response: its own, or of the first partition of each topic."""
    code = getattr(response, "error_code", 0)
    if not code:
        for topic in getattr(response, "responses", None) or ():
            parts = getattr(topic, "partition_responses", None) or getattr(topic, "partitions", None)
            code = code or (parts[0].error_code if parts else 0)
    return NO_ERROR if not code else _ERROR_NAMES.get(code, str(code))


_ERROR_NAMES: Final[Mapping[int, str]] = {int(code): code.name for code in ErrorCode}
