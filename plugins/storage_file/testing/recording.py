"""Recorder of every operation on files below one directory, in order."""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from tidelog.plugins.storage_file.testing.device import Device, filled_ranges
from tidelog.plugins.storage_file.testing.interposing import CHANGING, Interposer
from tidelog.plugins.storage_file.testing.operations import (
    ROOT,
    CreateFile,
    MakeDirectory,
    Operation,
    Rename,
    Resize,
    SyncDirectory,
    SyncFile,
    Unlink,
    WriteBytes,
)


@attrs.frozen
class _Mapping:
    """Writable mapped file; `fd` is a duplicate, since the program closes its descriptor."""

    alive: weakref.ref[mmap.mmap]
    node: int
    fd: int


class Recorder(Interposer):
    """Forwards operations and records them.

    What is in the directory when it begins counts as durable; `start` is a device that has that. Stores into
    mapped files happen without a call; they are noticed by their outcome before the next call, and by
    `catch_up`. Operations of several threads happen one after the other, as they
    are recorded.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = str(root)
        self.start = Device.holding(root)
        self._device = Device.holding(root)
        self._nodes: dict[int, int] = {}
        self._mappings: list[_Mapping] = []
        self._last_node = self._device.last_node
        self.operations: list[Operation] = []
        self._one_at_a_time = threading.RLock()

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Perform a call, and record its operation."""
        if name not in CHANGING and name not in ("close", "adopt"):
            return perform(*arguments)
        with self._one_at_a_time:
            return self._record(name, perform, arguments)

    def _record(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "close":
            self._nodes.pop(arguments[0], None)
            return perform(*arguments)
        if name == "adopt":
            # A file that is gone by then is not written.
            node = self._node(arguments[0])
            if node is not None:
                self._nodes[arguments[1]] = node
            return perform(*arguments)
        self.catch_up()
        if name == "remove_tree":
            below = self._tree(str(arguments[0]))
            perform(*arguments)
            for unlinking in below:
                self._add(unlinking)
            return None
        outcome = perform(*arguments)
        getattr(self, f"_saw_{name}")(outcome, *arguments)
        return outcome

    def catch_up(self) -> None:
        """Record what was stored into mapped files since the last call."""
        with self._one_at_a_time:
            for mapping in list(self._mappings):
                # Before the comparison: a store between the two is then seen at the next call.
                alive = mapping.alive() is not None
                self._compare(mapping)
                if not alive:
                    self._mappings.remove(mapping)
                    os.close(mapping.fd)

    def _compare(self, mapping: _Mapping) -> None:
        for start, end in filled_ranges(mapping.fd):
            content = os.pread(mapping.fd, end - start, start)
            known = self._device.files[mapping.node].cached.read(start, len(content))
            if content == known:
                continue
            changed = [at for at, (old, new) in enumerate(zip(known, content, strict=True)) if old != new]
            first, last = changed[0], changed[-1]
            self._add(WriteBytes(mapping.node, start + first, content[first : last + 1], mapped=True))

    def _add(self, operation: Operation) -> None:
        self._device.apply(operation)
        self.operations.append(operation)

    def _place(self, path: str | Path) -> tuple[int, str]:
        """Return the node of a path's parent directory, and its last component."""
        node = ROOT
        *parents, name = Path(os.path.relpath(path, self._root)).parts or (os.curdir,)
        for parent in parents:
            node = self._device.directories[node].cached[parent]
        return node, name

    def _node(self, path: str | Path) -> int | None:
        parent, name = self._place(path)
        if name == os.curdir:
            return ROOT
        return self._device.directories[parent].cached.get(name)

    def _new_node(self) -> int:
        self._last_node += 1
        return self._last_node

    def _tree(self, path: str) -> list[Operation]:
        """Return the operations that unlink everything below a directory, and it, deepest first."""
        parent, name = self._place(path)
        node = self._device.directories[parent].cached[name]
        below: list[Operation] = [
            step
            for entry in (self._device.directories[node].cached if node in self._device.directories else ())
            for step in self._tree(f"{path}/{entry}")
        ]
        return [*below, Unlink(parent, name)]

    def _saw_open_file(self, fd: int, path: str | Path, flags: int) -> None:
        node = self._node(path)
        if node is None:
            node = self._new_node()
            self._add(CreateFile(*self._place(path), node))
        elif flags & os.O_TRUNC and self._device.files[node].cached.size:
            self._add(Resize(node, 0))
        self._nodes[fd] = node

    def _saw_pwrite(self, written: int, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        self._add(WriteBytes(self._nodes[fd], position, bytes(memoryview(data)[:written])))

    def _saw_ftruncate(self, _: None, fd: int, size: int) -> None:
        self._resized(self._nodes[fd], size)

    def _saw_truncate(self, _: None, path: str | Path, size: int) -> None:
        node = self._node(path)
        if node is None:
            raise LookupError(f"{path} was there before the recording began")
        self._resized(node, size)

    def _saw_preallocate(self, _: None, fd: int, size: int) -> None:
        self._resized(self._nodes[fd], size)

    def _resized(self, node: int, size: int) -> None:
        if size != self._device.files[node].cached.size:
            self._add(Resize(node, size))

    def _saw_fsync(self, _: None, fd: int) -> None:
        node = self._nodes[fd]
        self._add(SyncDirectory(node) if node in self._device.directories else SyncFile(node))

    _saw_sync_data = _saw_fsync

    def _saw_rename(self, _: None, path: str | Path, new_path: str | Path) -> None:
        parent, name = self._place(path)
        new_parent, new_name = self._place(new_path)
        if parent != new_parent:
            raise LookupError(f"{path} is moved to another directory, which is not recorded")
        self._add(Rename(parent, name, new_name))

    def _saw_unlink(self, _: None, path: str | Path) -> None:
        self._add(Unlink(*self._place(path)))

    def _saw_mkdir(self, _: None, path: str | Path) -> None:
        self._add(MakeDirectory(*self._place(path), self._new_node()))

    def _saw_map_writable(self, mapped: mmap.mmap, fd: int, _: int) -> None:
        self._mappings.append(_Mapping(weakref.ref(mapped), self._nodes[fd], os.dup(fd)))
