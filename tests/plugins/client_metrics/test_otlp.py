"""Numbers of OpenTelemetry's MetricsData, beside the classes that its own package has for them."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.tables import for_each
from tidelog.plugins.client_metrics import otlp as decoder
from tidelog.plugins.client_metrics.otlp import InvalidMetrics, Point, decode_metrics

DELTA, CUMULATIVE = otlp.AGGREGATION_TEMPORALITY_DELTA, otlp.AGGREGATION_TEMPORALITY_CUMULATIVE


def attribute(key: str, **value: Any) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(**value))


def pushed(*metrics: otlp.Metric, **resource: str) -> bytes:
    """What a client pushes."""
    scope = otlp.ScopeMetrics(metrics=metrics)
    about = Resource(attributes=[attribute(key, string_value=value) for key, value in resource.items()])
    found = otlp.ResourceMetrics(resource=about, scope_metrics=[scope], schema_url="https://example.com")
    return bytes(otlp.MetricsData(resource_metrics=[found]).SerializeToString())


def total(name: str, value: int, temporality: Any = DELTA, **labels: str) -> otlp.Metric:
    attributes = [attribute(key, string_value=text) for key, text in labels.items()]
    point = otlp.NumberDataPoint(
        as_int=value, attributes=attributes, time_unix_nano=1, start_time_unix_nano=1
    )
    return otlp.Metric(
        name=name,
        unit="1",
        sum=otlp.Sum(data_points=[point], aggregation_temporality=temporality, is_monotonic=True),
    )


def gauge(name: str, *values: float) -> otlp.Metric:
    points = [otlp.NumberDataPoint(as_double=value) for value in values]
    return otlp.Metric(name=name, description="d" * 300, gauge=otlp.Gauge(data_points=points))


def test_decode_metrics_returns_gauges_and_sums_with_the_attributes_of_both() -> None:
    payload = pushed(
        total("a.total", -3, topic="t"), total("b", 1 << 40, CUMULATIVE), gauge("c", 1.5, -2.5), g="x"
    )
    assert decode_metrics(payload) == (
        [
            Point("a.total", -3, True, True, {"g": "x", "topic": "t"}),
            Point("b", 1 << 40, True, False, {"g": "x"}),
            Point("c", 1.5, False, False, {"g": "x"}),
            Point("c", -2.5, False, False, {"g": "x"}),
        ],
        0,
    )


def test_decode_metrics_leaves_out_other_kinds_and_counts_them() -> None:
    histogram = otlp.Metric(
        name="h", histogram=otlp.Histogram(data_points=[otlp.HistogramDataPoint(count=3)])
    )
    summary = otlp.Metric(name="s", summary=otlp.Summary())
    assert decode_metrics(pushed(histogram, gauge("g", 1), summary)) == ([Point("g", 1, False, False, {})], 2)
    up_and_down = otlp.Metric(name="u", sum=otlp.Sum(data_points=[otlp.NumberDataPoint(as_int=4)]))
    assert decode_metrics(pushed(up_and_down)).points == [Point("u", 4, False, False, {})]


VALUES: list[tuple[dict[str, Any], str]] = [
    ({"string_value": "ü"}, "ü"),
    ({"string_value": "x" * 999}, "x" * 256),
    ({"bool_value": True}, "true"),
    ({"int_value": -7}, "-7"),
    ({"double_value": 0.5}, "0.5"),
    ({"bytes_value": b"b"}, ""),
    ({"array_value": ArrayValue(values=[AnyValue(int_value=1)])}, ""),
]


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_decode_metrics_returns_attributes_as_text(value: dict[str, Any], text: str) -> None:
    point = otlp.NumberDataPoint(as_int=1, attributes=[attribute("k", **value)])
    metric = otlp.Metric(name="m", gauge=otlp.Gauge(data_points=[point]))
    (found,) = decode_metrics(pushed(metric)).points
    assert found.attributes == {"k": text}


def test_decode_metrics_limits_points_and_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    point = otlp.NumberDataPoint(attributes=[attribute(f"k{number}", int_value=1) for number in range(99)])
    (found,) = decode_metrics(pushed(otlp.Metric(name="m", gauge=otlp.Gauge(data_points=[point])))).points
    assert len(found.attributes) == decoder.MAX_ATTRIBUTES
    monkeypatch.setattr(decoder, "MAX_POINTS", 3)
    assert len(decode_metrics(pushed(gauge("g", 1, 2, 3))).points) == 3
    with pytest.raises(InvalidMetrics, match="more than 3 numbers"):
        decode_metrics(pushed(gauge("g", 1, 2), gauge("h", 1, 2)))


MALFORMED = [
    *(b"\x0a", b"\x0a\x05a", b"\x0b", b"\xff" * 11),
    *(b"\x0a\x02\x12\x7f", b"\x0a\x80", b"\x0a" + b"\x80" * 20),
]


@for_each("payload", MALFORMED)
def test_decode_metrics_refuses_what_is_malformed(payload: bytes) -> None:
    with pytest.raises(InvalidMetrics):
        decode_metrics(payload)


def test_decode_metrics_refuses_a_push_that_was_cut_or_reads_a_part_of_it() -> None:
    payload = pushed(total("a", 1, topic="t"), gauge("b", 1.5))
    outcomes = set[int]()
    for end in range(len(payload)):
        try:
            outcomes.add(len(decode_metrics(payload[:end]).points))
        except InvalidMetrics:
            outcomes.add(-1)
    assert outcomes == {0, -1}


@given(st.binary(max_size=200))
def test_decode_metrics_returns_or_refuses_any_bytes(payload: bytes) -> None:
    with contextlib.suppress(InvalidMetrics):
        decode_metrics(payload)


@given(st.text(max_size=99), st.floats() | st.integers(-(2**63), 2**63 - 1))
def test_decode_metrics_returns_any_number(name: str, value: float) -> None:
    if isinstance(value, int):
        point = otlp.NumberDataPoint(as_int=value)
    else:
        point = otlp.NumberDataPoint(as_double=value)
    (found,) = decode_metrics(pushed(otlp.Metric(name=name, gauge=otlp.Gauge(data_points=[point])))).points
    assert found.name == name
    assert found.value == value or math.isnan(value)
