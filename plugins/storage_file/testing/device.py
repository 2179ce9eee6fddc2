"""Model of a file system: its cached content, and its durable content on the device.

The device guarantees what POSIX does, and one property of journaling file systems: names in one directory
become durable in the order of their changes. Between files, and between files and directories, there is no
order without a sync, and a file's content becomes durable in any order, 512 bytes at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from tidelog.plugins.storage_file.testing.operations import (
    ROOT,
    CreateFile,
    DataOperation,
    MakeDirectory,
    NameOperation,
    Operation,
    Rename,
    Resize,
    SyncDirectory,
    SyncFile,
    Unlink,
    WriteBytes,
)

Names = dict[str, int]


@attrs.frozen
class DeviceContent:
    """Content of `size` bytes: `data`, and behind it a hole, which reads as zeros."""

    data: bytes = b""
    size: int = 0

    def after(self, operation: DataOperation) -> DeviceContent:
        """Return the content after an operation."""
        if isinstance(operation, Resize):
            return DeviceContent(self.data[: operation.size], operation.size)
        position, data, old = operation.position, operation.data, self.data
        end = position + len(data)
        changed = old[:position].ljust(position, b"\0") + data + old[end:]
        return DeviceContent(changed, max(self.size, end))

    def read(self, position: int, size: int) -> bytes:
        """Return a range, which ends at the end of the content at the latest."""
        count = min(size, self.size - position)
        return self.data[position : position + count].ljust(count, b"\0")


@attrs.define
class StoredFile:
    """File: `cached` is what programs see, `durable` is on the device, `pending` the writes between them."""

    cached: DeviceContent = attrs.field(factory=DeviceContent)
    durable: DeviceContent = attrs.field(factory=DeviceContent)
    pending: list[DataOperation] = attrs.field(factory=list[DataOperation])


@attrs.define
class StoredDirectory:
    """Names and the nodes behind them, as for `StoredFile`."""

    cached: Names = attrs.field(factory=Names)
    durable: Names = attrs.field(factory=Names)
    pending: list[NameOperation] = attrs.field(factory=list[NameOperation])


class Device:
    """State after some operations; it begins with an empty, durable root directory."""

    def __init__(self) -> None:
        self.files: dict[int, StoredFile] = {}
        self.directories: dict[int, StoredDirectory] = {ROOT: StoredDirectory()}

    @classmethod
    def holding(cls, root: Path) -> Device:
        """Create a device with a directory's content, if any, as durable; equal trees get equal numbers."""
        device = cls()
        if root.exists():
            device._take_in(ROOT, root)
        return device

    @property
    def last_node(self) -> int:
        """Return the largest node number in use."""
        return max([*self.files, *self.directories])

    def _take_in(self, node: int, place: Path) -> None:
        names = Names()
        for path in sorted(place.iterdir()):
            names[path.name] = child = self.last_node + 1
            if path.is_dir():
                self.directories[child] = StoredDirectory()
                self._take_in(child, path)
            else:
                content = stored_content(path)
                self.files[child] = StoredFile(content, content)
        self.directories[node] = StoredDirectory(names, dict(names))

    def apply(self, operation: Operation) -> None:
        """Apply one more operation."""
        match operation:
            case WriteBytes() | Resize():
                file = self.files[operation.node]
                file.cached = file.cached.after(operation)
                file.pending.append(operation)
            case SyncFile(node):
                file = self.files[node]
                file.durable = file.cached
                file.pending.clear()
            case SyncDirectory(node):
                directory = self.directories[node]
                directory.durable = dict(directory.cached)
                directory.pending.clear()
            case _:
                self._change_names(operation)

    def _change_names(self, operation: NameOperation) -> None:
        directory = self.directories[operation.parent]
        directory.cached = with_names(directory.cached, operation)
        directory.pending.append(operation)
        if isinstance(operation, MakeDirectory):
            self.directories[operation.node] = StoredDirectory()
        elif isinstance(operation, CreateFile):
            self.files[operation.node] = StoredFile()


def stored_content(path: Path) -> DeviceContent:
    """Return a file's content; of a hole at its end only the size is stored."""
    with path.open("rb") as file:
        size = path.stat().st_size
        end = max((end for _, end in filled_ranges(file.fileno())), default=0)
        return DeviceContent(os.pread(file.fileno(), min(end, size), 0), size)


def filled_ranges(fd: int) -> Iterator[tuple[int, int]]:
    """Return the ranges of a file that are no holes."""
    position = 0
    while True:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        position = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, position


def with_names(names: Mapping[str, int], operation: NameOperation) -> Names:
    """Return a directory's names after an operation."""
    changed = dict(names)
    match operation:
        case MakeDirectory() | CreateFile():
            changed[operation.name] = operation.node
        case Rename():
            changed[operation.new_name] = changed.pop(operation.name)
        case Unlink():
            del changed[operation.name]
    return changed
