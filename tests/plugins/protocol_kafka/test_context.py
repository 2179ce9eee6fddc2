"""What the context of a request bounds."""

from __future__ import annotations

from typing import Any

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.context import RequestContext


def test_error_message_returns_none_after_64_kib_in_one_response() -> None:
    nothing: Any = None
    context = RequestContext(nothing, nothing, fetch_max_bytes=1, max_idle_ms=1, fetch_sessions=nothing)
    told = [context.error_message(BrokerError("x" * 200)) for _ in range(1000)]
    size = sum(len(text) for text in told if text is not None)
    assert 64 * 1024 <= size <= 64 * 1024 + 200
    assert told[-1] is None
