"""Configuration keys of the export to OpenTelemetry."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import ValueType, integer, nullable, password, string


def _endpoint() -> ValueType[str]:
    return ValueType("string", "an http:// or https:// URL; empty: off", _parse_endpoint, str)


def _parse_endpoint(text: str) -> str:
    url = text.strip()
    if url and not url.startswith(("http://", "https://")):
        raise ValueError("is no http:// or https:// URL")
    return url


OPENTELEMETRY_ENDPOINT: Final = ConfigKey(
    name="opentelemetry.endpoint",
    type=_endpoint(),
    default="",
    documentation="Where meters are sent by OTLP over HTTP, such as `http://127.0.0.1:4318/v1/metrics` of a "
    "collector. Empty: nowhere.",
)
OPENTELEMETRY_INTERVAL_MS: Final = ConfigKey(
    name="opentelemetry.interval.ms",
    type=integer(100),
    default=60_000,
    documentation="How often meters are sent, in milliseconds.",
)
OPENTELEMETRY_TIMEOUT_MS: Final = ConfigKey(
    name="opentelemetry.timeout.ms",
    type=integer(1),
    default=10_000,
    documentation="How long sending may take, repetitions included, in milliseconds. What was not sent by "
    "then is dropped, and the sums that are sent next have it.",
)
OPENTELEMETRY_HEADERS: Final = ConfigKey(
    name="opentelemetry.headers",
    type=nullable(password()),
    default=None,
    documentation="Headers of the requests, as `name=value` between commas, such as "
    "`authorization=Bearer TOKEN`.",
)
OPENTELEMETRY_SERVICE_NAME: Final = ConfigKey(
    name="opentelemetry.service.name",
    type=string(non_empty=True),
    default="tidelog",
    documentation="The attribute `service.name` of what is sent.",
)
