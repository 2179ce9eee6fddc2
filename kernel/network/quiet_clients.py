"""Serving clients that are quiet for the most part, such as thousands of group members with their heartbeats.

To wake up a task, and mostly the whole process, takes several times as long as such a request itself. So the
sockets of quiet clients are in one epoll, and one task serves by plain calls what arrives there, many
requests in a turn. The task of the connection sleeps until a request has to wait, the client gets busy, or it
leaves.

While many such requests arrive, the process wakes up for them only every `PAUSE_SECONDS`, as a network card
moderates its interrupts. Clients that are not quiet are never held up by that.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol, Self

import trio

from tidelog.kernel.loop_monitor import set_holder
from tidelog.kernel.seams.transport import Transport

TURN_SECONDS: Final = 0.002
"""Requests are served for so long before other tasks run."""
PAUSE_SECONDS: Final = 0.01
"""How long requests gather: a client notices it in its first request for a second, if at all."""
MANY_REQUESTS: Final = 10
"""So many requests in `PAUSE_SECONDS` are let gather; fewer are served as they arrive."""
EVENTS_AT_ONCE: Final = 64
"""Sockets that the system reports in one call: about what is served in a turn."""


class QuietClient(Protocol):
    """A connection; as text, in log lines, its last request and the peer."""

    def serve_at_once(self) -> bool:
        """Serve what has arrived; return False if the task of the connection has to."""
        ...


class _Sleeper:
    """A connection whose task sleeps, and the error that wakes it up."""

    __slots__ = ("client", "error", "task")

    def __init__(self, task: trio.lowlevel.Task, client: QuietClient) -> None:
        self.task = task
        self.client = client
        self.error: Exception | None = None


class QuietClients:
    """The quiet clients of a server; a context manager around the tasks of its connections.

    As text, in log lines: the connection that is served.
    """

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        # Only Linux has it. Elsewhere each task waits for its socket.
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._sleepers: dict[int, _Sleeper] = {}
        self._now = now
        self._served: QuietClient | None = None
        self._count = 0
        self._counted_since = now()
        self._gathers = False

    def __str__(self) -> str:
        return str(self._served)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._epoll is not None:
            self._epoll.close()

    async def sleep(self, transport: Transport, client: QuietClient) -> None:
        """Sleep until `client.serve_at_once` returns False or raises: it is called when bytes arrive."""
        epoll, descriptor = self._epoll, transport.fileno()
        if epoll is None:
            await transport.wait_readable()
            return
        # Level-triggered: what arrived between the last receive and now is reported, too.
        epoll.register(descriptor, select.EPOLLIN)
        sleeper = self._sleepers[descriptor] = _Sleeper(trio.lowlevel.current_task(), client)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._remove(descriptor)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if sleeper.error is not None:
            try:
                raise sleeper.error
            finally:
                sleeper.error = None  # which refers to this frame

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._epoll is None:
            return
        set_holder(self)
        while True:
            await trio.lowlevel.wait_readable(self._epoll)
            await self._serve_all(self._epoll)
            while self._are_many():
                await trio.sleep(PAUSE_SECONDS)
                await self._serve_all(self._epoll)

    async def _serve_all(self, epoll: select.epoll) -> None:
        turn_ends = self._now() + TURN_SECONDS
        while events := epoll.poll(0, EVENTS_AT_ONCE):
            for descriptor, _ in events:
                self._serve(descriptor)
                if self._now() >= turn_ends:
                    self._served = None
                    await trio.lowlevel.checkpoint()
                    turn_ends = self._now() + TURN_SECONDS
            self._count += len(events)
            self._served = None

    def _serve(self, descriptor: int) -> None:
        sleeper = self._sleepers.get(descriptor)
        if sleeper is None:
            return  # its task was cancelled in an earlier turn
        self._served = sleeper.client
        try:
            if sleeper.client.serve_at_once():
                return
        except Exception as error:
            sleeper.error = error
        # Before the task continues, which may close the socket.
        self._remove(descriptor)
        trio.lowlevel.reschedule(sleeper.task)

    def _remove(self, descriptor: int) -> None:
        del self._sleepers[descriptor]
        if self._epoll is not None:
            self._epoll.unregister(descriptor)

    def _are_many(self) -> bool:
        """Return whether requests should gather, by how many there were lately."""
        now = self._now()
        elapsed = now - self._counted_since
        if elapsed >= PAUSE_SECONDS:
            self._gathers = self._count * PAUSE_SECONDS >= MANY_REQUESTS * elapsed
            self._count, self._counted_since = 0, now
        return self._gathers
