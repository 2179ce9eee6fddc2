"""`ZooKeeper` by kazoo, whose threads hand over to trio; nothing here waits on the event loop for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from tidelog.plugins.zookeeper.kazoo_requests import KazooRequests, translated
from tidelog.plugins.zookeeper.security import ZooKeeperSecurity

if TYPE_CHECKING:
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.session import Watch

CLOSE_S: Final = 5.0
"""How long the end of the session may take; then ZooKeeper finds out by itself."""


class KazooZooKeeper(KazooRequests):
    """A client in a trio run; `parallel` requests wait for their answers at a time."""

    def __init__(
        self,
        connect: ConnectString,
        session_timeout_ms: int,
        parallel: int,
        security: ZooKeeperSecurity | None = None,
    ) -> None:
        super().__init__(connect, session_timeout_ms, security or ZooKeeperSecurity())
        self._limiter = trio.CapacityLimiter(parallel)
        self._changed = trio.Event()
        self._dead = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Connect, and stay so until the block ends."""
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._start_client()
            nursery.start_soon(self._replace_dead_clients)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
                with trio.move_on_after(CLOSE_S, shield=True):
                    await self._close_in_thread()

    async def wait_changed(self) -> None:
        """Wait until `session_id` or `problem` changes."""
        await self._changed.wait()

    async def _ask(self, path: str, send: Callable[[Any], Any]) -> Any:
        """Send one request and wait for its answer, at most for the timeout of a session."""
        async with self._limiter:
            self._check_connected()
            answered = trio.Event()
            result = send(self._client)

            def hand_over(_: object) -> None:
                # In a thread of kazoo's, which may be later than the end of this run.
                self._post(answered.set)

            result.rawlink(hand_over)
            with trio.move_on_after(self._timeout_s) as waiting:
                await answered.wait()
            if waiting.cancelled_caught:
                raise self._silent(path)
        try:
            return result.get(block=False)
        except Exception as error:
            raise translated(error, path) from error

    async def _replace_dead_clients(self) -> None:
        while True:
            await self._dead.wait()
            await self._close_in_thread()
            await trio.sleep(self._next_retry_s())
            self._dead = trio.Event()
            self._start_client()

    async def _close_in_thread(self) -> None:
        await trio.to_thread.run_sync(self._close_client, abandon_on_cancel=True)

    def _died(self) -> None:
        self._dead.set()

    def _post(self, call: Callable[[], object]) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(call)

    def _post_watch(self, watch: Watch) -> None:
        # `idempotent`: a storm of changes before the loop's next turn is one call.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(watch, idempotent=True)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
