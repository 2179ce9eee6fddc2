"""The suite of interceptors for required headers: records that have one, and records that do not."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.testing.interceptors import InterceptorConformance
from tidelog.plugins.client import NewRecord, build_batch


class RequiredHeadersConformance(InterceptorConformance):
    settings = {"required_headers.names": "trace-id"}

    def batches(self) -> Sequence[bytes]:
        traced = NewRecord(b"v", b"k", [("trace-id", b"7"), ("other", None)])
        accepted = [[traced], [traced] * 20]
        return [bytes(build_batch(records, now_ms=0)) for records in (*accepted, [traced, NewRecord(b"v")])]
