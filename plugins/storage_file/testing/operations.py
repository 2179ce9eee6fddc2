"""Operations of a program on a file system.

Files and directories go by numbers, as inodes do: their names change, and two may follow each other under one
name.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

ROOT = 0
"""Number of the root directory."""


@attrs.frozen
class MakeDirectory:
    """Create a directory in `parent`."""

    parent: int
    name: str
    node: int


@attrs.frozen
class CreateFile:
    """Create an empty file in `parent`."""

    parent: int
    name: str
    node: int


@attrs.frozen
class WriteBytes:
    """Write bytes into a file; `mapped`: through a mapping, so that only the result was observed."""

    node: int
    position: int
    data: bytes
    mapped: bool = False


@attrs.frozen
class Resize:
    """Truncate a file, or extend it with zeros."""

    node: int
    size: int


@attrs.frozen
class SyncFile:
    """Make a file's content durable."""

    node: int


@attrs.frozen
class SyncDirectory:
    """Make all names in a directory durable."""

    node: int


@attrs.frozen
class Rename:
    """Rename a file or directory within its directory, replacing what has that name."""

    parent: int
    name: str
    new_name: str


@attrs.frozen
class Unlink:
    """Remove the name of a file or of an empty directory."""

    parent: int
    name: str


DataOperation: TypeAlias = WriteBytes | Resize
NameOperation: TypeAlias = MakeDirectory | CreateFile | Rename | Unlink
Operation: TypeAlias = DataOperation | NameOperation | SyncFile | SyncDirectory
