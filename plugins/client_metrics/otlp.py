"""Numbers of OpenTelemetry's `MetricsData` in protocol buffers, decoded without a library for these.

Clients of Kafka push gauges and sums (KIP-714); histograms and summaries are counted, and left out.

Source: opentelemetry-proto, `metrics/v1/metrics.proto` and `common/v1/common.proto`; the encoding of protocol
buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

MAX_POINTS: Final = 5_000
"""Numbers of one push. The Java clients have some hundreds, a few for each topic and broker."""
MAX_ATTRIBUTES: Final = 16
"""Attributes of a point or resource; further ones are left out."""
MAX_TEXT: Final = 256
"""Characters of a name or an attribute, which Kafka's clients fill with topics and client ids."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DELTA: Final = 1
"""`AGGREGATION_TEMPORALITY_DELTA`: what was added since the last push."""

_double = struct.Struct("<d").unpack
_signed = struct.Struct("<q").unpack


class InvalidMetrics(ValueError):
    """The bytes are no `MetricsData`, or have too many numbers."""


class Point(NamedTuple):
    """One number. `attributes` are those of the resource and of the point, by their names."""

    name: str
    value: float
    is_sum: bool
    is_delta: bool
    attributes: Mapping[str, str]


class DecodedMetrics(NamedTuple):
    """The numbers of a push, and how many metrics of other kinds were left out."""

    points: list[Point]
    skipped: int


def decode_metrics(payload: bytes) -> DecodedMetrics:
    """Decode a push.

    Raises:
        InvalidMetrics: it is malformed, or has more than `MAX_POINTS` numbers.
    """
    decoder = _Decoder()
    try:
        for _, resource_metrics in _messages(memoryview(payload), {1}):
            decoder.resource_metrics(resource_metrics)
    # A length beyond the end, a text that is no UTF-8, a number as the wrong type.
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise InvalidMetrics(f"no MetricsData: {error}") from error
    return DecodedMetrics(decoder.points, decoder.skipped)


class _Decoder:
    def __init__(self) -> None:
        self.points: list[Point] = []
        self.skipped = 0

    def resource_metrics(self, data: memoryview) -> None:
        resource: dict[str, str] = {}
        scopes: list[memoryview] = []
        for number, content in _messages(data, {1, 2}):
            if number == 1:
                resource = _attributes(content, 1)
            else:
                scopes.append(content)
        for scope in scopes:
            for _, metric in _messages(scope, {2}):
                self._metric(metric, resource)

    def _metric(self, data: memoryview, resource: Mapping[str, str]) -> None:
        name = ""
        for number, content in _messages(data, {1, 5, 7, 9, 10, 11}):
            if number == 1:
                name = _text(content)
            elif number in (5, 7):
                self._numbers(name, content, resource, is_sum=number == 7)
            else:
                self.skipped += 1

    def _numbers(self, name: str, data: memoryview, resource: Mapping[str, str], *, is_sum: bool) -> None:
        points: list[memoryview] = []
        is_delta = is_monotonic = False
        for number, kind, value in _fields(data):
            if number == 1 and isinstance(value, memoryview):
                points.append(value)
            elif kind == VARINT and number == 2:
                is_delta = value == DELTA
            elif kind == VARINT and number == 3:
                is_monotonic = bool(value)
        if len(self.points) + len(points) > MAX_POINTS:
            raise InvalidMetrics(f"more than {MAX_POINTS} numbers")
        for point in points:
            count, attributes = _number_and_attributes(point)
            named = {**resource, **attributes} if attributes else resource
            self.points.append(Point(name, count, is_sum and is_monotonic, is_sum and is_delta, named))


def _number_and_attributes(data: memoryview) -> tuple[float, Mapping[str, str]]:
    number: float = 0
    for field, kind, content in _fields(data):
        if kind == FIXED64 and isinstance(content, memoryview) and field in (4, 6):
            (number,) = _double(content) if field == 4 else _signed(content)
    return number, _attributes(data, 7)


def _attributes(data: memoryview, field: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, pair in _messages(data, {field}):
        key, value = "", ""
        for number, content in _messages(pair, {1, 2}):
            if number == 1:
                key = _text(content)
            else:
                value = _any_value(content)
        if len(found) < MAX_ATTRIBUTES:
            found[key] = value
    return found


def _any_value(data: memoryview) -> str:
    """Return a value as text; lists and maps are left out."""
    text = ""
    for number, kind, content in _fields(data):
        if isinstance(content, int):
            if number == 2:
                text = "true" if content else "false"
            elif number == 3:
                text = str(content - (1 << 64) if content >> 63 else content)
        elif number == 1 and kind == BYTES:
            text = _text(content)
        elif number == 4 and kind == FIXED64:
            text = repr(_double(content)[0])
    return text


def _text(data: memoryview) -> str:
    return str(data, "utf-8")[:MAX_TEXT]


def _messages(data: memoryview, numbers: set[int]) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields of these numbers that have a length."""
    for number, kind, content in _fields(data):
        if kind == BYTES and number in numbers and isinstance(content, memoryview):
            yield number, content


def _fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield each field of a message: its number, its wire type, and a number or the bytes."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, position = _varint(data, position)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise InvalidMetrics(f"no MetricsData: wire type {kind}")
        if length > end - position:
            raise InvalidMetrics("no MetricsData: a field is longer than its message")
        yield number, kind, data[position : position + length]
        position += length


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a number of up to 64 bits, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise InvalidMetrics("no MetricsData: a number of more than 64 bits")
