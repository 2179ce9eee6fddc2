"""What a program does to a file system, one operation at a time.

Files and directories go by numbers, as inodes do: their names change, and two may follow each other under one
name.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

ROOT = 0
"""The number of the directory in which everything happens."""


@attrs.frozen
class MakeDirectory:
    """`parent` gets a directory."""

    parent: int
    name: str
    node: int


@attrs.frozen
class CreateFile:
    """`parent` gets an empty file."""

    parent: int
    name: str
    node: int


@attrs.frozen
class WriteBytes:
    """Bytes are put into a file; `mapped`: through memory, so that only the outcome was seen."""

    node: int
    position: int
    data: bytes
    mapped: bool = False


@attrs.frozen
class Resize:
    """A file is cut, or extended with zeros."""

    node: int
    size: int


@attrs.frozen
class SyncFile:
    """All that a file holds is on the device from now on."""

    node: int


@attrs.frozen
class SyncDirectory:
    """All names in a directory are on the device from now on."""

    node: int


@attrs.frozen
class Rename:
    """A file or directory gets another name in the same directory, replacing what has that name."""

    parent: int
    name: str
    new_name: str


@attrs.frozen
class Unlink:
    """A name is taken away from a file, or from an empty directory."""

    parent: int
    name: str


DataOperation: TypeAlias = WriteBytes | Resize
NameOperation: TypeAlias = MakeDirectory | CreateFile | Rename | Unlink
Operation: TypeAlias = DataOperation | NameOperation | SyncFile | SyncDirectory
