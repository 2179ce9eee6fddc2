"""An engine as the loop of clients of ZooKeeper: they call back as the engine's own operations do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.plugins.zookeeper.kazoo_blocking import run_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tidelog.plugins.client.engine import Engine, EngineTimer

T = TypeVar("T")


class EngineLoop:
    """`CallbackLoop` over an engine and its driver, until the engine is closed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.clock = engine.clock

    def call_at(self, when: float, call: Callable[[], None]) -> EngineTimer:
        """Call at a time of `clock`."""
        return self._engine.call_at(when, call)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], done: Callable[[T | Exception], None]) -> None:
        """Run a coroutine that awaits a blocking client in a thread; call `done` in the engine."""
        self._engine.io.run_in_thread(lambda: run_blocking(work), done)

    def post(self, call: Callable[[], None]) -> None:
        """Call in the engine; any thread may call this."""
        self._engine.io.post(call)
