"""A plugin whose interceptors are those that a test has put here, by the names of their tables."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager

from tidelog.kernel import hookimpl
from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.interceptors import Interceptor, InterceptorContext, InterceptorKind
from tidelog.kernel.testing.broker import running_broker

BY_NAME: dict[str, Interceptor] = {}


class Scripted:
    """The kind of all of them."""

    name = "scripted"

    def create(self, context: InterceptorContext) -> Interceptor:
        return BY_NAME[context.name]


@hookimpl
def tidelog_interceptors() -> Iterable[InterceptorKind]:
    return [Scripted()]


@asynccontextmanager
async def intercepting_broker(
    settings: Mapping[str, object] | None = None, /, **interceptors: Interceptor
) -> AsyncGenerator[Broker]:
    """A broker with these interceptors."""
    BY_NAME.update(interceptors)
    tables = {f"interceptors.{name}.type": "scripted" for name in interceptors}
    try:
        async with running_broker({"plugins": __name__, **tables, **(settings or {})}) as broker:
            yield broker
    finally:
        for name in interceptors:
            del BY_NAME[name]
