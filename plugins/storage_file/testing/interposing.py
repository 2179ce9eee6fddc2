"""Interposition on every call of `tidelog.kernel.disk`, between the plugins and the system."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from tidelog.kernel import disk

CHANGING: Final = frozenset(
    {
        "fsync",
        "ftruncate",
        "map_writable",
        "mkdir",
        "open_file",
        "preallocate",
        "pwrite",
        "remove_tree",
        "rename",
        "sync_data",
        "truncate",
        "unlink",
    }
)
"""Calls that change something on the disk, or may."""
READING: Final = frozenset({"map_readable", "pread", "preadv", "scandir", "stat"})
BY_DESCRIPTOR: Final = frozenset(
    {
        "close",
        "fsync",
        "ftruncate",
        "map_readable",
        "map_writable",
        "preallocate",
        "pread",
        "preadv",
        "pwrite",
        "sync_data",
    }
)
"""Calls whose first argument is a descriptor; that of the others is a path."""
ALL: Final = CHANGING | READING | BY_DESCRIPTOR | {"adopt"}


class Interposer:
    """Forwards every call; a subclass observes or replaces calls.

    Calls come from any thread; while `one_at_a_time` each waits for the one before. Subclasses whose calls
    wait for another thread or the event loop set it to `False`.
    """

    one_at_a_time = True

    def __init__(self) -> None:
        self._opened: dict[int, str] = {}

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Perform a call; `name` is the function's name in `disk`."""
        return perform(*arguments)

    def path_of(self, name: str, arguments: tuple[Any, ...]) -> str:
        """Return the path of a call; "" for a descriptor that was opened before the installation."""
        if name in BY_DESCRIPTOR:
            return self._opened.get(arguments[0], "")
        return str(arguments[0])

    @contextmanager
    def installed(self) -> Generator[None]:
        """Install the interposer until the block ends; one installed before is called by this one."""
        originals = {name: getattr(disk, name) for name in ALL}
        taking_turns = threading.RLock() if self.one_at_a_time else nullcontext()
        for name, perform in originals.items():
            setattr(disk, name, self._wrapped(name, perform, taking_turns))
        try:
            yield
        finally:
            for name, perform in originals.items():
                setattr(disk, name, perform)

    def _wrapped(
        self, name: str, perform: Callable[..., Any], taking_turns: AbstractContextManager[object]
    ) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            with taking_turns:
                outcome = self.call(name, perform, arguments)
                if name in ("open_file", "adopt"):
                    self._opened[outcome] = str(arguments[0])
                elif name == "close":
                    self._opened.pop(arguments[0], None)
                return outcome

        return wrapped
