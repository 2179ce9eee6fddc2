"""Configuration keys of listeners that speak HTTP."""

from __future__ import annotations

from tidelog.kernel.config import ConfigKey
from tidelog.kernel.config.types import integer

HTTP_REQUEST_MAX_BYTES = ConfigKey(
    name="http.request.max.bytes",
    type=integer(1024),
    default=4 * 1024 * 1024,
    documentation="The largest body of an HTTP request, in bytes; a larger one is refused with status 413.",
)
HTTP_REQUEST_TIMEOUT_MS = ConfigKey(
    name="http.request.timeout.ms",
    type=integer(1),
    default=30_000,
    documentation="How long an HTTP request may take to arrive as a whole, in milliseconds; a slower one is "
    "refused with status 408.",
)
HTTP_RESPONSE_MAX_BYTES = ConfigKey(
    name="http.response.max.bytes",
    type=integer(1024),
    default=1024 * 1024,
    documentation="The most bytes of keys and values in one HTTP response or event; a larger record is "
    "returned alone.",
)
HTTP_CONSUMER_TIMEOUT_MS = ConfigKey(
    name="http.consumer.instance.timeout.ms",
    type=integer(1),
    default=300_000,
    documentation="A consumer instance of the HTTP listener is deleted after this time without a request, in "
    "milliseconds.",
)
HTTP_CONSUMERS_MAX = ConfigKey(
    name="http.consumer.instances.max",
    type=integer(1),
    default=1000,
    documentation="The largest number of consumer instances of the HTTP listener; further ones are refused.",
)
