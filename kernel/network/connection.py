"""One client connection: moves bytes between its socket and its sans-IO protocol state.

The socket is driven without trio's stream objects: a recv or send that can go ahead costs one system call and
no trip through the scheduler, and everything a client pipelined is served in one go. `wait_readable` and
`wait_writable` are the only places that block, and a busy connection still yields after half a millisecond.
For a client in a closed loop of small requests the event loop polls, see `busy_poll`, and how responses are
sent is in `sending`.

Nothing here has a timeout of its own: the server's sweep ends idle and stuck connections by shutting the
socket down, which wakes the task that waits on it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.loop_monitor import set_holder
from tidelog.kernel.network.busy_poll import BusyPoll, ClosedLoop, let_others_run
from tidelog.kernel.network.quiet_clients import QuietClients
from tidelog.kernel.network.request_memory import MemoryShare
from tidelog.kernel.network.sending import (
    SHORT_BYTES,
    FileNotSent,
    is_about_the_peer,
    is_long,
    is_short,
    send_at_once,
    send_parts,
)
from tidelog.kernel.network.turns import Turns
from tidelog.kernel.seams.transport import Transport
from tidelog.kernel.seams.wire import (
    ConnectionFinished,
    Parts,
    Peer,
    ProtocolViolation,
    UntilPeerSends,
    WireConnection,
)

if TYPE_CHECKING:
    from tidelog.kernel.network.server import PeerWarnings

_log = logging.getLogger(__name__)

UNKNOWN = -1
NOTHING_ARRIVED = -1
NO_ROOM = -2
"""The memory for more of the request is to be waited for."""
TURN_SECONDS: Final = 0.0005
"""A connection is served for so long without waiting, and then others are: some eight small batches, or one
large request."""
PARTS_BEFORE_SEND = 64
"""Answers to pipelined requests are sent together, up to about this many parts."""
LINGER_SECONDS: Final = 1.0
LINGER_BYTES: Final = 1024 * 1024
"""How long, and for how many bytes, a peer is listened to that is still sending: if the connection was closed
at once, its system would drop the last response."""


class Connection:
    """A connected client; `run` serves it until either side ends it.

    As text, in log lines: its last request, and the peer.
    """

    __slots__ = (
        "_aborted",
        "_closed_loop",
        "_finishing",
        "_peer_left",
        "_quiet_clients",
        "_sent_long",
        "_short_answers_before",
        "_transport",
        "_turn_ends",
        "_turns",
        "_unfinished",
        "_unsent_bytes",
        "_wait_scope",
        "_wants_memory",
        "_warnings",
        "_wire",
        "active_since_sweep",
        "idle_sweeps",
        "memory",
        "peer",
    )

    def __init__(
        self,
        transport: Transport,
        wire: WireConnection,
        peer: Peer,
        warnings: PeerWarnings,
        busy_poll: BusyPoll,
        turns: Turns,
        quiet_clients: QuietClients,
        memory: MemoryShare,
    ) -> None:
        self.memory = memory
        memory.owner = self
        self.peer = peer
        self.active_since_sweep = True
        self.idle_sweeps = 0
        self._sent_long = False
        self._short_answers_before = turns.short_answers
        self._finishing = False
        self._peer_left = False
        self._aborted = False
        self._turn_ends = perf_counter() + TURN_SECONDS
        self._unsent_bytes = 0
        self._wait_scope: trio.CancelScope | None = None
        self._wants_memory = False
        self._transport = transport
        self._warnings = warnings
        self._wire = wire
        self._closed_loop = ClosedLoop(busy_poll)
        self._turns = turns
        self._quiet_clients = quiet_clients
        self._unfinished: Parts | Awaitable[Parts] | None = None

    def __str__(self) -> str:
        return f"{self._wire.current_request or 'the connection'} of {self.peer}"

    async def run(self, ended: Callable[[Connection], None]) -> None:
        """Serve requests until the peer closes, breaks the protocol or the server shuts the socket down.

        `ended` is called then, whatever the reason was.
        """
        # One coroutine, and no buffer among its variables: all this is there while a connection idles.
        set_holder(self)
        try:
            while True:
                # Before `_receive`, which marks the connection as active.
                was_quiet = not self.active_since_sweep
                count = self._receive()
                if count == 0:
                    return
                if count > 0:
                    self._closed_loop.received(count)
                    answered = await self._answer_all()
                    if self._finishing:
                        return
                    self._closed_loop.answered(answered, self._wire.records_received)
                    self._note(answered)
                    if was_quiet and answered == 1 and not self._transport.holds_bytes:
                        # A client that is quiet for the most part has sent its request: there is hardly more.
                        await self._quiet_clients.sleep(self._transport, self)
                        self._note(await self._answer_all())
                    elif perf_counter() < self._turn_ends:
                        continue
                    else:
                        await trio.lowlevel.checkpoint()
                elif count == NO_ROOM:
                    await self._wait_for_memory()
                    if self._peer_left or self._finishing:
                        return
                elif self._closed_loop.should_poll():
                    await let_others_run()
                else:
                    await self._transport.wait_readable()
                self._turn_ends = perf_counter() + TURN_SECONDS
        except ConnectionFinished:
            await self._linger()
        except Exception as error:
            self._report(error)
        finally:
            self._closed_loop.stop()
            self._wire.close()
            self._transport.close()
            ended(self)

    async def _linger(self) -> None:
        """Give the peer time to read the last response."""
        _shutdown(self._transport, socket.SHUT_WR)
        buffer, left = bytearray(SHORT_BYTES), LINGER_BYTES
        with contextlib.suppress(OSError, ProtocolViolation), trio.move_on_after(LINGER_SECONDS):
            while left > 0:
                try:
                    count = self._transport.recv_into(buffer)
                except BlockingIOError:
                    await self._transport.wait_readable()
                    continue
                if not count:
                    return
                left -= count

    def _receive(self) -> int:
        """Receive what has arrived; return its size, 0 at the end, or `NO_ROOM` or `NOTHING_ARRIVED`.

        Raises:
            OSError: the peer has reset the connection.
        """
        buffer = self._wire.receive_buffer()
        if not buffer:
            return NO_ROOM
        try:
            count = self._transport.recv_into(buffer)
        except BlockingIOError:
            return NOTHING_ARRIVED
        if count:
            self.active_since_sweep = True
            self._wire.bytes_received(count)
        return count

    def serve_at_once(self) -> bool:
        """Serve the request of a quiet client, if that needs no waiting; see `QuietClients.sleep`."""
        if self.active_since_sweep:
            return False
        count = self._receive()
        if count <= 0:
            return count == NOTHING_ARRIVED
        self._unfinished = self._wire.next_step()
        if not is_short(self._unfinished):
            return False
        if self._unfinished:
            self._unfinished = send_at_once(self._transport, self._unfinished)
        if self._unfinished:
            return False
        self._note(1)
        self._unfinished = self._wire.next_step()
        # What the transport holds would not wake anything: the descriptor does not report it.
        return self._unfinished is None and not self._transport.holds_bytes

    def _note(self, answered: int) -> None:
        """Note that so many requests were answered."""
        if answered and self.memory.held_bytes:
            self.memory.request_finished()
        if self._sent_long:
            self._sent_long, self._short_answers_before = False, self._turns.short_answers
        elif answered:
            self._turns.short_answers += 1

    def _report(self, error: Exception) -> None:
        """Log what ended the connection."""
        if isinstance(error, ProtocolViolation | FileNotSent):
            self._warnings.warn(self.peer, "closing the connection of", error)
        elif isinstance(error, OSError) and is_about_the_peer(error):
            _log.debug("connection of %s ended: %s", self.peer, error)
        else:
            self._warnings.report_failure(self.peer, error)

    async def _answer_all(self) -> int:
        """Serve every request that arrived whole, and return how many were.

        What was answered before a violation is still sent.
        """
        pending: Parts = []
        served = 0
        # What is sent now goes into the system's queue: the sweep has to measure that again.
        self._unsent_bytes = UNKNOWN
        try:
            # What `serve_at_once` has left is first.
            step, self._unfinished = self._unfinished or self._wire.next_step(), None
            while step is not None:
                if type(step) is not list:
                    # Emptied before it is sent, here and below: after an error `finally` must not send it
                    # once more.
                    earlier, pending = pending, []
                    pending = await self._wait_for(step, earlier)  # type: ignore[arg-type]
                else:
                    pending += step
                if len(pending) >= PARTS_BEFORE_SEND:
                    earlier, pending = pending, []
                    await self._send(earlier)
                served += 1
                if perf_counter() >= self._turn_ends:
                    earlier, pending = pending, []
                    if earlier and not self._peer_left and (rest := send_at_once(self._transport, earlier)):
                        await self._send(rest)
                    await trio.lowlevel.checkpoint()
                    self._turn_ends = perf_counter() + TURN_SECONDS
                step = self._wire.next_step()
        finally:
            if pending and not self._peer_left and (rest := send_at_once(self._transport, pending)):
                await self._send(rest)
        return served

    async def _send(self, parts: Parts) -> None:
        if parts and not self._peer_left:
            if is_long(parts):
                self._sent_long = True
                self._closed_loop.stop()
            await send_parts(self._transport, parts, self)

    async def _wait_for(self, answer: Awaitable[Parts], earlier: Parts) -> Parts:
        try:
            await self._send(earlier)
        except BaseException:
            # The request was taken from the wire already. One that changes something is shielded and
            # completed, as after a disconnection; any other one is cancelled at once.
            with trio.CancelScope() as abandoned:
                abandoned.cancel()
                await answer
            raise
        with trio.CancelScope() as self._wait_scope:
            try:
                if isinstance(answer, UntilPeerSends):
                    return await self._until_readable(answer.wait)
                return await answer
            finally:
                self._wait_scope = None
        # The scope was cancelled: by `abort`, or by a sweep that found that the peer has left.
        if self._aborted:
            raise BrokenPipeError("the connection was ended while a request of it waited")
        # The peer has left and has sent more requests before: as in Kafka they are still executed.
        return []

    async def _until_readable(self, wait: Callable[[], Awaitable[Parts]]) -> Parts:
        """Return what `wait` returns, nothing if the peer sends before."""
        transport = self._transport
        parts: Parts = []
        if transport.holds_bytes:
            return parts
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:

            async def cancel_when_readable() -> None:
                await transport.wait_readable()
                nursery.cancel_scope.cancel()

            nursery.start_soon(cancel_when_readable)
            try:
                parts = await wait()
            except Exception as error:
                # Not through the nursery, which would raise it in a group.
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return parts

    async def _wait_for_memory(self) -> None:
        """Pause reading until there is memory for more of the request."""
        self._closed_loop.stop()
        self._wants_memory = True
        with trio.CancelScope() as self._wait_scope:
            try:
                await self.memory.wait()
            finally:
                self._wait_scope, self._wants_memory = None, False
        if self._aborted:
            raise BrokenPipeError("the connection was ended while a request waited for memory")

    def reclaim_memory(self) -> None:
        """Give back what is not used now."""
        # A request that is being served, or is not whole yet, uses its buffer.
        if self._wait_scope is None:
            self._wire.release_memory()

    def give_up(self) -> bool:
        """End the connection, unless it is the broker that makes its request wait; return whether it ends."""
        if self._wait_scope is not None and not self._wants_memory:
            return False
        held_kib = self.memory.held_bytes // 1024
        reason = f"others wait for the {held_kib} KiB of its unfinished request (queued.max.request.bytes)"
        self._warnings.warn(self.peer, "closing the connection of", reason, alike="unfinished request")
        self.abort()
        return True

    def sweep(self) -> int:
        """Return in how many calls in a row the connection had done nothing since the one before.

        They are about a second apart. A request that waits is no activity: as in Kafka a connection is idle
        if nothing moves on it. The wait is cancelled when the peer has left.
        """
        # While it finishes, its own end of the socket is shut, which may look as if the peer had left.
        if self._wait_scope is not None and not self._finishing and self._transport.has_left():
            self._peer_left = True
            self._wait_scope.cancel()
        if self.active_since_sweep or (self._unsent_bytes != 0 and self._peer_receives()):
            self.active_since_sweep, self.idle_sweeps = False, 0
        else:
            self.idle_sweeps += 1
        return self.idle_sweeps

    def _peer_receives(self) -> bool:
        """Return whether the peer received anything since the last call, of what the system has for it."""
        before, self._unsent_bytes = self._unsent_bytes, self._transport.unsent_bytes()
        # A first measurement counts as progress if anything is in the queue, a later one only if it has
        # changed.
        return self._unsent_bytes not in (before, 0 if before == UNKNOWN else before)

    @property
    def shares_turns(self) -> bool:
        """Whether any connection got a short answer since the last long one of this connection."""
        return self._turns.short_answers != self._short_answers_before

    async def give_way(self) -> None:
        """Let other connections be served, and other processes run."""
        await self._turns.give_way()

    def release_memory(self) -> None:
        """Release large buffers; others are allocated when the peer sends again."""
        self._wire.release_memory()

    def finish(self) -> None:
        """End gracefully: what has arrived is answered, nothing more is read."""
        self._finishing = True
        _shutdown(self._transport, socket.SHUT_RD)
        # A request that is not whole has not arrived. It would wait for memory for bytes that are never read.
        if self._wants_memory and self._wait_scope is not None:
            self._wait_scope.cancel()

    def abort(self) -> None:
        """End at once, whatever is under way."""
        self._aborted = True
        _shutdown(self._transport, socket.SHUT_RDWR)
        if self._wait_scope is not None:
            self._wait_scope.cancel()


def _shutdown(transport: Transport, how: int) -> None:
    with contextlib.suppress(OSError):  # the peer was faster
        transport.shutdown(how)
