"""The connection to ZooKeeper as the registries use it, whatever carries it.

Paths are absolute and below the chroot. An operation returns when ZooKeeper has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol, TypeAlias

Watch: TypeAlias = Callable[[], None]
"""Called once after a change, on the event loop. One function that watches many nodes, or one twice, may be
called once for several changes; also when the session ends."""


class NodeContent(NamedTuple):
    """A node: its value, the session that it belongs to (0: persistent), and when it was created."""

    value: bytes
    owner: int = 0
    created_ms: int = 0


class ZooKeeperRequests(Protocol):
    """Requests to ZooKeeper, by a client that connects by itself, with a new session after an expiry.

    Every operation is in the present session, and may raise:
        Unavailable: no answer in time; it may be done or not.
        SessionExpired: the session has ended.
        Refused: by an access control list, or since the value is too large.
    """

    @property
    def session_id(self) -> int:
        """The session while it is connected, else 0."""
        ...

    @property
    def problem(self) -> str:
        """Why it is not connected, as far as that is known; empty once it is."""
        ...

    async def create_chroot(self) -> None:
        """Create the node below which all paths are, with those above it, where they are missing.

        Raises:
            Unavailable, Refused: see above.
        """
        ...

    async def create(
        self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and return its path, with `sequential` that of the number ZooKeeper added.

        Raises:
            NodeExists, NoNode: there is such a node, or none above it.
        """
        ...

    async def read(self, path: str, watch: Watch | None = None) -> NodeContent:
        """Return a node; with `watch` its next change calls that.

        Raises:
            NoNode: there is none.
        """
        ...

    async def write(self, path: str, value: bytes) -> None:
        """Replace the value of a node.

        Raises:
            NoNode: there is none.
        """
        ...

    async def children(self, path: str, watch: Watch | None = None) -> Sequence[str]:
        """Return the names of the nodes below a node; with `watch` the next one to come or go calls that.

        Raises:
            NoNode: there is none.
        """
        ...

    async def delete(self, path: str) -> None:
        """Remove a node.

        Raises:
            NoNode, NotEmpty: there is none, or it has children.
        """
        ...


class ZooKeeper(ZooKeeperRequests, Protocol):
    """A client of ZooKeeper for async code."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Connect, and stay so until the block ends; then the session is closed, within a deadline."""
        ...

    async def wait_changed(self) -> None:
        """Wait until `session_id` or `problem` changes."""
        ...


def session_name(session_id: int) -> str:
    """Return a session as ZooKeeper's own log and commands show it."""
    return f"0x{session_id & (1 << 64) - 1:x}"
