"""Requests to ZooKeeper and the connection to it by kazoo, apart from who waits for the answers."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.zookeeper.errors import (
    NodeExists,
    NoNode,
    NotEmpty,
    Refused,
    SessionExpired,
    Unavailable,
    ZooKeeperError,
)
from tidelog.plugins.zookeeper.layouts import CONSUMERS
from tidelog.plugins.zookeeper.session import NodeContent, Watch

if TYPE_CHECKING:
    from tidelog.plugins.zookeeper.connect_string import ConnectString
    from tidelog.plugins.zookeeper.security import ZooKeeperSecurity

_log = logging.getLogger(__name__)

MAX_VALUE_BYTES: Final = 1_000_000
"""ZooKeeper drops the connection of a client that sends more than `jute.maxbuffer`, 1 MiB by default."""
FIRST_RETRY_S: Final = 0.1
LONGEST_RETRY_S: Final = 10.0
"""Pauses between two rounds through all servers that do not answer."""
CLOSE_S: Final = 5.0
"""How long the end of the session may take; then ZooKeeper finds out by itself."""

_ERRORS: Final[Mapping[type[Exception], type[ZooKeeperError]]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.NotEmptyError: NotEmpty,
    exceptions.NoAuthError: Refused,
    exceptions.InvalidACLError: Refused,
    exceptions.AuthFailedError: Refused,
    exceptions.SessionExpiredError: SessionExpired,
}
"""All others are those of a server or a connection that does not work now: `Unavailable`."""


class KazooRequests:
    """A client of ZooKeeper without who waits; a new client of kazoo's follows one that nonsense has ended.

    A subclass waits for answers in `_ask`, has `_post` call in its event loop what kazoo's threads hand over,
    and may override what follows a change.

    Attributes:
        session_id: the session while it is connected, else 0
        problem: why it is not connected, empty once it is
    """

    def __init__(self, connect: ConnectString, session_timeout_ms: int, security: ZooKeeperSecurity) -> None:
        self._connect = connect
        self._security = security
        self._timeout_s = session_timeout_ms / 1000
        self._client: Any = None
        self._watches: dict[Watch, Callable[[object], None]] = {}
        self._retry_s = FIRST_RETRY_S
        self.session_id = 0
        self.problem = ""

    async def create_chroot(self) -> None:
        """Create the nodes of the chroot that are missing."""
        parts = self._connect.chroot.split("/")[1:]
        for count in range(len(parts)):
            path = "/" + "/".join(parts[: count + 1])
            try:
                await self._create_persistent(path)
            except NodeExists:
                continue

    async def _create_persistent(self, path: str) -> None:
        await self._ask(path, lambda client: client.create_async(path, None))

    async def create(
        self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and return its path."""
        full = self._full(path, value)
        # Old consumers have their nodes below it, each its own.
        acl = OPEN_ACL_UNSAFE if path == CONSUMERS else None
        created: str = await self._ask(
            full,
            # Folders of Kafka have null, and what reads a value as JSON has a case for that alone.
            lambda client: client.create_async(
                full, value or None, acl=acl, ephemeral=ephemeral, sequence=sequential
            ),
        )
        return created.removeprefix(self._connect.chroot)

    async def read(self, path: str, watch: Watch | None = None) -> NodeContent:
        """Return a node."""
        full, handed_over = self._full(path), self._handed_over(watch)
        value, stat = await self._ask(full, lambda client: client.get_async(full, handed_over))
        return NodeContent(value or b"", stat.ephemeralOwner, stat.ctime)

    async def write(self, path: str, value: bytes) -> None:
        """Replace the value of a node."""
        full = self._full(path, value)
        await self._ask(full, lambda client: client.set_async(full, value))

    async def children(self, path: str, watch: Watch | None = None) -> Sequence[str]:
        """Return the names of the nodes below a node."""
        full, handed_over = self._full(path), self._handed_over(watch)
        names: list[str] = await self._ask(full, lambda client: client.get_children_async(full, handed_over))
        return names

    async def delete(self, path: str) -> None:
        """Remove a node."""
        full = self._full(path)
        await self._ask(full, lambda client: client.delete_async(full))

    async def _ask(self, path: str, send: Callable[[Any], Any]) -> Any:
        """Send one request and return its answer; raise what `ZooKeeper` does."""
        raise NotImplementedError

    def _post(self, call: Callable[[], None]) -> None:
        """Have something called in the event loop; kazoo's threads call this."""
        raise NotImplementedError

    def _notify(self) -> None:
        """Follow a change of `session_id` or `problem`."""

    def _died(self) -> None:
        """Replace the client of kazoo's, whose thread has ended, after a pause."""

    def _check_connected(self) -> None:
        if not self.session_id:
            raise Unavailable(f"not connected to ZooKeeper at {self._connect.servers}")
        # Kazoo may have another session that the event loop does not know of yet: what belonged to the one
        # before, such as owned partitions, may be another client's.
        if self._client.client_id is not None and int(self._client.client_id[0]) != self.session_id:
            raise SessionExpired("the session has expired")

    def _silent(self, path: str) -> Unavailable:
        return Unavailable(f"{path}: no answer from ZooKeeper within {self._timeout_s:g} s")

    def _handed_over(self, watch: Watch | None) -> Callable[[object], None] | None:
        """Return what kazoo calls in a thread: the same for the same function, so that kazoo has it once."""
        if watch is None:
            return None
        if watch not in self._watches:
            self._watches[watch] = lambda _: self._post_watch(watch)
        return self._watches[watch]

    def _post_watch(self, watch: Watch) -> None:
        self._post(watch)

    def _full(self, path: str, value: bytes = b"") -> str:
        full = self._connect.full_path(path)
        if len(value) > MAX_VALUE_BYTES:
            raise Refused(f"{full}: {len(value)} bytes are more than ZooKeeper takes ({MAX_VALUE_BYTES})")
        return full

    def _start_client(self) -> None:
        log = _KazooLog()
        # Not with each warning: another server of the round may answer.
        handler = _Handler(lambda: self._note_problem_soon(log.last_warning), self._security.new_context)
        client: Any = KazooClient(
            hosts=self._connect.servers,
            timeout=self._timeout_s,
            handler=handler,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=FIRST_RETRY_S,
                max_delay=LONGEST_RETRY_S,
                sleep_func=handler.sleep_func,
            ),
            logger=log,
            **self._security.kazoo_options(),
        )

        def state_changed(state: str) -> None:
            self._state_changed(client, state, log.last_warning)

        client.add_listener(state_changed)
        self._client = client
        client.start_async()

    def _next_retry_s(self) -> float:
        """Return the pause before the client is replaced; the next one is twice as long."""
        pause, self._retry_s = self._retry_s, min(2 * self._retry_s, LONGEST_RETRY_S)
        return pause

    def _close_client(self) -> None:
        """End the session, in a thread: that takes a while."""
        client = self._client
        try:
            client.stop()
            client.close()
        except Exception as error:
            _log.debug("a client of ZooKeeper was not closed: %r", error)

    def _state_changed(self, client: Any, state: str, problem: str) -> None:
        """In a thread of kazoo's: note a connection that is made or lost."""
        session_id = int(client.client_id[0]) if state == KazooState.CONNECTED else 0
        # Its thread has ended; a session that expired is followed by another one.
        is_dead = client._state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
        self._post(lambda: self._note_state(client, session_id, problem, is_dead=is_dead))

    def _note_state(self, client: object, session_id: int, problem: str, *, is_dead: bool) -> None:
        if client is not self._client:
            return
        self.session_id = session_id
        if session_id:
            self.problem, self._retry_s = "", FIRST_RETRY_S
        else:
            self.problem = problem or "the connection was lost"
        if is_dead:
            self._died()
        self._notify()

    def _note_problem_soon(self, text: str) -> None:
        self._post(lambda: self._note_problem(text))

    def _note_problem(self, text: str) -> None:
        if not self.session_id and text and text != self.problem:
            self.problem = text
            self._notify()


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Kazoo's threads; what ends one with an error is in the log that the client has, and nowhere else.

    `pausing` is called in a thread between two rounds through all servers, `new_context` before a connection
    with TLS: kazoo's own reads PEM files alone.
    """

    def __init__(self, pausing: Callable[[], None], new_context: Callable[[], ssl.SSLContext] | None) -> None:
        def sleep(seconds: float) -> None:
            pausing()
            time.sleep(seconds)

        # Before the threads: kazoo compares it with that of its retries.
        self.sleep_func = sleep
        self._new_context = new_context
        super().__init__()

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_of_pem: object,
    ) -> socket.socket:
        """Return a connected socket; `hostname` is the name that was resolved to the address."""
        connected = socket.create_connection(address, timeout)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._new_context is None:
                return connected
            return self._new_context().wrap_socket(connected, server_hostname=hostname or address[0])
        except BaseException as error:
            connected.close()
            if isinstance(error, TidelogError):
                # As what kazoo tries again after: the file may be replaced.
                raise OSError(str(error)) from error
            raise

    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> Any:
        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:
                _log.debug("a thread of kazoo ended: %r", error)

        spawn: Callable[[Callable[[], None]], object] = super().spawn  # pyright: ignore
        return spawn(run)


class _KazooLog(logging.LoggerAdapter[logging.Logger]):
    """The log of kazoo, which has a line for each attempt: on level debug, and its last warning is kept."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger(f"{__name__}.kazoo"), {})
        self.last_warning = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Keep a warning, and log it on level debug."""
        if level >= logging.WARNING and not str(msg).startswith("Transition"):
            self.last_warning = _described(msg, args, kwargs.get("exc_info"))
        super().log(min(level, logging.DEBUG), msg, *args, **kwargs)


def _described(msg: object, args: tuple[object, ...], exc_info: object) -> str:
    text = str(msg) % args if args else str(msg)
    if exc_info:
        # Kazoo's words for what no peer should send.
        return "a server sent what is no answer of ZooKeeper"
    return text.removeprefix("Connection dropped: ").removeprefix("socket connection error: ")


def translated(error: Exception, path: str) -> ZooKeeperError:
    """Return an error of kazoo's as this plugin distinguishes it."""
    for kind, own in _ERRORS.items():
        if isinstance(error, kind):
            return own(f"{path}: {_WORDS[own]}")
    return Unavailable(f"{path}: {str(error) or type(error).__name__}")


_WORDS: Final[Mapping[type[ZooKeeperError], str]] = {
    NoNode: "there is no such node",
    NodeExists: "there is such a node",
    NotEmpty: "the node has children",
    Refused: "ZooKeeper's access control lists do not allow it",
    SessionExpired: "the session has expired",
}
