"""An ensemble in memory: nodes, sessions, ephemeral nodes and refusals, with clients that lose it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from tidelog.plugins.zookeeper.errors import (
    NodeExists,
    NoNode,
    NotEmpty,
    Refused,
    SessionExpired,
    Unavailable,
)
from tidelog.plugins.zookeeper.session import NodeContent, Watch


@attrs.define
class Ensemble:
    """All nodes by path. `refusing` are paths whose access control lists let no one write."""

    nodes: dict[str, NodeContent] = attrs.field(factory=lambda: {"/": NodeContent(b"")})
    refusing: set[str] = attrs.field(factory=set[str])
    now_ms: int = 0
    sessions: set[int] = attrs.field(factory=set[int])
    writes: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])
    _last_session: int = 0
    _last_number: int = -1
    _watches: dict[str, set[Watch]] = attrs.field(factory=dict[str, set[Watch]])

    def new_session(self) -> int:
        self._last_session += 1
        self.sessions.add(self._last_session)
        return self._last_session

    def expire(self, session_id: int) -> None:
        self.sessions.discard(session_id)
        for path in [path for path, node in self.nodes.items() if node.owner == session_id]:
            del self.nodes[path]
            self._changed(path)

    def add_watch(self, path: str, watch: Watch | None) -> None:
        """Call `watch` once after the next change of a node, or with a slash at its end of its children."""
        if watch is not None:
            self._watches.setdefault(path, set()).add(watch)

    def _changed(self, path: str, *, children: bool = True) -> None:
        parent = path.rpartition("/")[0] + "/"
        for each in (path, parent) if children else (path,):
            for watch in self._watches.pop(each, ()):
                watch()

    def put(self, path: str, value: bytes, owner: int = 0) -> None:
        """Have a node and all above it, as some other client left them."""
        for end, letter in enumerate(path):
            if letter == "/" and end:
                self.nodes.setdefault(path[:end], NodeContent(b""))
        self.nodes[path] = NodeContent(value, owner, self.now_ms)
        self._changed(path)

    def below(self, path: str) -> list[str]:
        """The names of the children of a node."""
        prefix = path.rstrip("/") + "/"
        names = (each.removeprefix(prefix) for each in self.nodes if each.startswith(prefix))
        return sorted(name for name in names if name and "/" not in name)

    def create(self, path: str, value: bytes, owner: int, *, sequential: bool) -> str:
        if sequential:
            self._last_number += 1
            path += f"{self._last_number:010}"
        self._check(path)
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.nodes or self.nodes[parent].owner:
            raise NoNode(path)
        if path in self.nodes:
            raise NodeExists(path)
        self.nodes[path] = NodeContent(value, owner, self.now_ms)
        self.writes.append(("create", path))
        self._changed(path)
        return path

    def write(self, path: str, value: bytes) -> None:
        self._check(path)
        there = self.read(path)
        self.nodes[path] = there._replace(value=value)
        self.writes.append(("write", path))
        self._changed(path, children=False)

    def read(self, path: str) -> NodeContent:
        if path not in self.nodes:
            raise NoNode(path)
        return self.nodes[path]

    def delete(self, path: str) -> None:
        self._check(path)
        self.read(path)
        if self.below(path):
            raise NotEmpty(path)
        del self.nodes[path]
        self.writes.append(("delete", path))
        self._changed(path)

    def _check(self, path: str) -> None:
        if path in self.refusing:
            raise Refused(path)


class FakeZooKeeper:
    """A client of an ensemble. `lose_answer`: which write, counted from now on, is done and not answered."""

    def __init__(self, ensemble: Ensemble, *, reachable: bool = True) -> None:
        self.ensemble = ensemble
        self.session_id = 0
        self.problem = ""
        self.lose_answer = 0
        self.operations = 0
        self._own_session = 0
        self._reachable = reachable
        self._changed = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        if self._reachable:
            self.connect()
        else:
            self.disconnect("Connection refused")
        try:
            yield
        finally:
            self.ensemble.expire(self._own_session)

    def connect(self) -> None:
        """Reach a server again, in the same session if it has not expired."""
        if self._own_session not in self.ensemble.sessions:
            self._own_session = self.ensemble.new_session()
        self.session_id, self.problem = self._own_session, ""
        self._notify()

    def disconnect(self, problem: str = "the connection was lost") -> None:
        self.session_id, self.problem = 0, problem
        self._notify()

    def expire(self) -> None:
        """Lose the session and its nodes; `connect` brings another one."""
        self.ensemble.expire(self._own_session)
        self.disconnect("Session has expired")

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def wait_changed(self) -> None:
        await self._changed.wait()

    async def create_chroot(self) -> None:
        await self._begin()

    async def create(
        self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        await self._begin()
        owner = self.session_id if ephemeral else 0
        path = self.ensemble.create(path, value, owner, sequential=sequential)
        self._answer()
        return path

    async def read(self, path: str, watch: Watch | None = None) -> NodeContent:
        await self._begin()
        found = self.ensemble.read(path)
        self.ensemble.add_watch(path, watch)
        return found

    async def write(self, path: str, value: bytes) -> None:
        await self._begin()
        self.ensemble.write(path, value)
        self._answer()

    async def children(self, path: str, watch: Watch | None = None) -> Sequence[str]:
        await self._begin()
        self.ensemble.read(path)
        self.ensemble.add_watch(f"{path}/", watch)
        return self.ensemble.below(path)

    async def delete(self, path: str) -> None:
        await self._begin()
        self.ensemble.delete(path)
        self._answer()

    async def _begin(self) -> None:
        session_id = self.session_id
        await trio.lowlevel.checkpoint()
        if not self.session_id:
            raise Unavailable("not connected")
        if self.session_id != session_id or session_id not in self.ensemble.sessions:
            raise SessionExpired("expired")
        self.operations += 1

    def _answer(self) -> None:
        self.lose_answer -= 1
        if not self.lose_answer:
            raise Unavailable("the connection was lost")
