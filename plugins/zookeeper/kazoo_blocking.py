"""`ZooKeeper` by kazoo for threads that may wait: its methods are async functions that never suspend."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kazoo.handlers.threading import KazooTimeoutError

from tidelog.plugins.zookeeper.kazoo_requests import KazooRequests, translated

if TYPE_CHECKING:
    from tidelog.plugins.zookeeper.callback_loop import CallbackLoop
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.security import ZooKeeperSecurity
    from tidelog.plugins.zookeeper.session import Watch

T = TypeVar("T")


class BlockingZooKeeper(KazooRequests):
    """A client that calls back in a loop, and whose requests block: they are for `CallbackLoop.run`."""

    def __init__(
        self,
        connect: ConnectString,
        session_timeout_ms: int,
        loop: CallbackLoop,
        security: ZooKeeperSecurity,
    ) -> None:
        super().__init__(connect, session_timeout_ms, security)
        self._loop = loop
        self._changed: Callable[[], None] = _nothing
        self._posted: set[Watch] = set()
        self._is_stopped = False

    def start(self, changed: Callable[[], None]) -> None:
        """Connect, and stay so until `stop`; `changed` is called when `session_id` or `problem` changes."""
        self._changed = changed
        self._start_client()

    def stop(self, done: Callable[[], None]) -> None:
        """End the session, and call `done` then."""
        self._is_stopped = True
        self._loop.run(self._close, lambda _outcome: done())

    async def _close(self) -> None:
        self._close_client()

    async def _ask(self, path: str, send: Callable[[Any], Any]) -> Any:
        """Send one request and block until its answer is there, at most for the timeout of a session."""
        self._check_connected()
        result = send(self._client)
        try:
            return result.get(timeout=self._timeout_s)
        except KazooTimeoutError:
            raise self._silent(path) from None
        except Exception as error:
            raise translated(error, path) from error

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.post(call)

    def _post_watch(self, watch: Watch) -> None:
        """Post a watch unless it is on its way: a storm of changes is one call."""
        if watch in self._posted:
            return
        self._posted.add(watch)

        def call() -> None:
            self._posted.discard(watch)
            watch()

        self._post(call)

    def _notify(self) -> None:
        if not self._is_stopped:
            self._changed()

    def _died(self) -> None:
        if not self._is_stopped:
            self._loop.run(self._close, lambda _outcome: self._start_again())

    def _start_again(self) -> None:
        def start() -> None:
            if not self._is_stopped:
                self._start_client()

        self._loop.call_at(self._loop.clock() + self._next_retry_s(), start)


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine that awaits nothing but a blocking client to its end; return its result."""
    coroutine = work()
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("it waits for something else than ZooKeeper")


def _nothing() -> None:
    """Follow no change: the client was not started."""
