"""A plugin with kinds of sinks that a test makes up."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import attrs

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.seams.sinks import Sink, SinkContext, SinkFeed, SinkKind

MODULE = "sinks_of_a_test"
Run = Callable[[SinkFeed], Awaitable[None]]


@attrs.define
class FunctionSink:
    """Runs a function."""

    run: Run


@attrs.define
class FunctionKind:
    """Sinks that run a function; `contexts` are those that they were created with."""

    make: Callable[[SinkContext], Any]
    keys: Sequence[ConfigKey[Any]] = ()
    name: str = "probe"
    contexts: list[SinkContext] = attrs.field(factory=list[SinkContext])

    def create(self, context: SinkContext) -> Sink:
        """The sink that the function makes."""
        self.contexts.append(context)
        made: Sink = self.make(context)
        return made


def running(run: Run) -> FunctionKind:
    """A kind of sinks that run this."""
    return FunctionKind(lambda _: FunctionSink(run))


@contextmanager
def plugin_with(*kinds: SinkKind | object) -> Generator[str]:
    """A module that offers these kinds; its name."""
    module = ModuleType(MODULE)

    @hookimpl
    def tidelog_sinks() -> Sequence[object]:
        return kinds

    vars(module)["tidelog_sinks"] = tidelog_sinks
    sys.modules[MODULE] = module
    try:
        yield MODULE
    finally:
        del sys.modules[MODULE]
