"""A broker in a thread of its own, which other threads start, stop and call into."""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import trio

from tidelog.kernel.testing.broker import new_broker

if TYPE_CHECKING:
    from tidelog.kernel import Broker
    from tidelog.testing.clock import ShiftedClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class BrokerThread:
    """A running broker; `broker` belongs to its thread.

    Raises:
        Exception: whatever kept it from starting.
    """

    def __init__(self, settings: Mapping[str, object], clock: ShiftedClock) -> None:
        self._started: queue.SimpleQueue[Broker | Exception] = queue.SimpleQueue()
        self._token: trio.lowlevel.TrioToken
        self._clock = clock
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._run, args=(settings,), name="tidelog-kafka-server", daemon=True
        )
        self._thread.start()
        outcome = self._started.get()
        if isinstance(outcome, Exception):
            self._thread.join()
            raise outcome
        self.broker = outcome
        clock.wake_by(self._wake)

    def call(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Call a function in the thread of the broker; return what it returns."""
        return trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def await_(self, function: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
        """Await an async function in the thread of the broker; return its result."""
        return trio.from_thread.run(function, *arguments, trio_token=self._token)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the broker, gracefully or without waiting for requests; the thread has ended then.

        Raises:
            Exception: what went wrong while it ran.
        """
        self._clock.wake_by(None)
        if self._thread.is_alive():
            self._token.run_sync_soon(self.broker.stop_at_once if at_once else self.broker.request_stop)
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        # Whatever runs in the loop makes it look at its deadlines again.
        self._token.run_sync_soon(int)

    def _run(self, settings: Mapping[str, object]) -> None:
        async def main() -> None:
            async with new_broker(settings, clock=lambda: self._clock.now_ms).running() as broker:
                self._token = trio.lowlevel.current_trio_token()
                self._started.put(broker)
                await broker.wait_stop_requested()

        try:
            trio.run(main, clock=self._clock)
        except Exception as error:
            self._failure = error
            self._started.put(error)
