"""What another client of ZooKeeper finds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from tests.deadlines import DEADLINE_S


class Found(NamedTuple):
    """A node: its value, and whether it is ephemeral."""

    value: bytes | None
    ephemeral: bool


@contextmanager
def observing(connect: str) -> Generator[Any]:
    """A client of kazoo's, whose types are unknown."""
    observer: Any = KazooClient(connect)
    observer.start(DEADLINE_S)
    yield observer
    observer.stop()
    observer.close()


def all_nodes(observer: Any, root: str) -> dict[str, Found]:
    """All nodes below a path, by their path from there."""
    found: dict[str, Found] = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        value, stat = observer.get(root + path)
        found[path] = Found(value, bool(stat.ephemeralOwner))
        waiting += [f"{path}/{name}" for name in observer.get_children(root + path)]
    return found


def wait_until_there(observer: Any, path: str) -> None:
    """Wait until there is a node."""
    wait_until(lambda: observer.exists(path))


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for what another process does."""
    deadline = monotonic() + DEADLINE_S
    while not condition():
        assert monotonic() < deadline
        sleep(0.05)
