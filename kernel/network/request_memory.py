"""The memory that requests may have until they are answered, shared by all connections.

A connection takes what its request needs when more of it has arrived than the few KiB that each connection
has. What does not fit waits, and reading pauses meanwhile, as with Kafka's `queued.max.request.bytes`; those
that wait get memory in the order in which they began to wait. Kafka leaves it at that, so that clients which
begin large requests and never end them stop all others; here the requests that have been unfinished for
longest are given up then.
"""

from __future__ import annotations

from collections import OrderedDict
from operator import attrgetter
from typing import Final, Protocol

import attrs
import trio

PATIENCE_S: Final = 10.0
"""So long the first in the queue waits, until requests that have been unfinished for as long are given up."""


class Owner(Protocol):
    """The connection that has a share."""

    def reclaim_memory(self) -> None:
        """Give back what is not used now."""
        ...

    def give_up(self) -> bool:
        """End the connection, unless it is the broker that makes its request wait; return whether it ends."""
        ...


@attrs.define(eq=False)
class MemoryShare:
    """The share of one connection, of all sizes in bytes.

    `owner` is None before and after the connection's life. `unfinished_since`: when it last answered a
    request, or else since when it has memory. `wanted_bytes`: what it was refused.
    """

    _memory: RequestMemory
    owner: Owner | None = None
    held_bytes: int = 0
    wanted_bytes: int = 0
    unfinished_since: float = 0.0
    ending: bool = False

    def resize(self, size_bytes: int) -> bool:
        """Take so much in all, or give back down to that; return False, with what it had, if there is less.

        A connection that needs it has to `wait` then, and to ask for the same again.
        """
        if size_bytes <= self.held_bytes:
            self._memory.give_back(self, size_bytes)
            return True
        self.wanted_bytes = size_bytes
        return self._memory.take(self, size_bytes)

    async def wait(self) -> None:
        """Wait until there is what the last `resize` did not get; it is reserved then."""
        await self._memory.wait(self)

    def request_finished(self) -> None:
        """Note that the connection makes progress; it gives back what it does not use if others wait."""
        self.unfinished_since = trio.current_time()
        if self._memory.waiting_count:
            self.reclaim()

    def reclaim(self) -> None:
        """Have the connection give back what it does not use."""
        if self.owner is not None:
            self.owner.reclaim_memory()

    def give_up(self) -> bool:
        """Have the connection end; return whether it does."""
        return self.owner is not None and self.owner.give_up()

    def close(self) -> None:
        """Give back all: the connection has ended."""
        self.owner = None
        self._memory.give_back(self, 0)


@attrs.define
class _Waiting:
    since: float
    granted: trio.Event = attrs.field(factory=trio.Event)


class RequestMemory:
    """The budget: who holds how much, and who waits in which order."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._holders: set[MemoryShare] = set()
        self._queue: OrderedDict[MemoryShare, _Waiting] = OrderedDict()

    def share(self) -> MemoryShare:
        """Return the empty share of a new connection."""
        return MemoryShare(self)

    @property
    def waiting_count(self) -> int:
        """How many connections wait."""
        return len(self._queue)

    def take(self, share: MemoryShare, size_bytes: int) -> bool:
        """Raise a share to that size; return False if it does not fit, or if others wait."""
        # Those that wait come first: small requests would keep a large one waiting forever.
        if self._queue:
            return False
        if not self._fits(share, size_bytes):
            self._reclaim(share)
        if not self._fits(share, size_bytes):
            return False
        self._hold(share, size_bytes)
        return True

    def give_back(self, share: MemoryShare, size_bytes: int) -> None:
        """Lower a share to that size."""
        if size_bytes == share.held_bytes:
            return
        self._hold(share, size_bytes)
        self._grant()

    async def wait(self, share: MemoryShare) -> None:
        """Wait in the queue until the share is raised to what it was refused."""
        waiting = self._queue[share] = _Waiting(trio.current_time())
        # Others may have given back since the share was refused, and then nothing would wake this one.
        self._grant()
        try:
            await waiting.granted.wait()
        finally:
            # The grant may have come before the wait was cancelled: then the share is closed next.
            if self._queue.pop(share, None) is not None:
                self._grant()

    def sweep(self) -> None:
        """Reclaim what is not used, and end what is unfinished, for one that has waited for too long.

        Called about once in a second.
        """
        if not self._queue:
            return
        self._reclaim(None)
        self._grant()
        share, waiting = next(iter(self._queue.items()), (None, None))
        now = trio.current_time()
        if share is None or waiting is None or now - waiting.since < PATIENCE_S:
            return
        missing = self.used_bytes - share.held_bytes + share.wanted_bytes - self.limit_bytes
        # What was given up in an earlier sweep comes back when those connections end: no more of them than
        # needed.
        missing -= sum(each.held_bytes for each in self._holders if each.ending)
        for hoarder in sorted(self._holders, key=attrgetter("unfinished_since")):
            if missing <= 0 or now - hoarder.unfinished_since < PATIENCE_S:
                return
            if hoarder is not share and not hoarder.ending and hoarder.give_up():
                hoarder.ending = True
                missing -= hoarder.held_bytes

    def _fits(self, share: MemoryShare, size_bytes: int) -> bool:
        """Whether the share may have that; one that is alone may have what it needs, or it would never."""
        of_others = self.used_bytes - share.held_bytes
        return of_others == 0 or of_others + size_bytes <= self.limit_bytes

    def _hold(self, share: MemoryShare, size_bytes: int) -> None:
        if not share.held_bytes:
            share.unfinished_since = trio.current_time() if size_bytes else 0.0
        self.used_bytes += size_bytes - share.held_bytes
        share.held_bytes = size_bytes
        if size_bytes:
            self._holders.add(share)
        else:
            self._holders.discard(share)

    def _grant(self) -> None:
        while self._queue:
            share, waiting = next(iter(self._queue.items()))
            if not self._fits(share, share.wanted_bytes):
                return
            del self._queue[share]
            self._hold(share, share.wanted_bytes)
            waiting.granted.set()

    def _reclaim(self, asking: MemoryShare | None) -> None:
        for share in tuple(self._holders):
            if share is not asking:
                share.reclaim()
