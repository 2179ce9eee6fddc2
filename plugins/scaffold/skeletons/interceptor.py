"""An interceptor: refuses records whose value is larger than its table permits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import integer
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    Interceptor,
    InterceptorContext,
    InterceptorKind,
    Record,
    RefusedRecord,
    RunsIn,
)

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

MOST_BYTES = ConfigKey(
    name="interceptors.NAME.skeleton.most.bytes",
    type=integer(0),
    default=100_000,
    documentation="The number of bytes that a value has at most.",
)


class SkeletonInterceptor(Interceptor):
    """The interceptor of one table; override what it shall do (`Interceptor`)."""

    runs_in = RunsIn.LOOP

    def __init__(self, context: InterceptorContext) -> None:
        # Named by a policy key, an interceptor has no table.
        self.most_bytes = MOST_BYTES.default if context.table is None else context.table[MOST_BYTES]

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        """Answer for each record before the next one is taken."""
        for record in records:
            if len(record.value or b"") > self.most_bytes:
                yield RefusedRecord(f"the value has more than {self.most_bytes} bytes")
            else:
                yield record


class SkeletonInterceptorKind:
    """What `interceptors.NAME.type` chooses for a table."""

    name = "skeleton"

    def create(self, context: InterceptorContext) -> Interceptor:
        """Return the interceptor of a table."""
        return SkeletonInterceptor(context)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[int]]:
    """Return the keys of the tables."""
    return [MOST_BYTES]


@hookimpl
def tidelog_interceptors() -> Iterable[InterceptorKind]:
    """Offer the kind."""
    return [SkeletonInterceptorKind()]
