"""Content of a device after a power failure: anything between the synced and the written state."""

from __future__ import annotations

import enum
import os
import random
from pathlib import Path

import attrs

from tidelog.plugins.storage_file.testing.device import (
    Device,
    DeviceContent,
    Names,
    StoredDirectory,
    StoredFile,
    with_names,
)
from tidelog.plugins.storage_file.testing.operations import ROOT, WriteBytes

SECTOR_BYTES = 512
"""Sector size, in bytes: a device writes a sector whole or not at all."""
BLOCK_BYTES = 4096
"""Block size of the file system, in bytes."""


class DataFate(enum.Enum):
    """Outcome for data that was written and not synced."""

    KEPT = "all of it is there"
    LOST = "none of it is there, nor has the file grown"
    ZEROS = "the file has grown, by zeros"
    NONSENSE = "the file has grown, by what the device held there before"
    TORN = "the operations up to some sector of some write are there"
    SCATTERED = "any sectors are there, and the file has grown to any of its sizes"
    OVERGROWN = "all of it is there, and behind it blocks that were handed out too early"


class NameFate(enum.Enum):
    """Outcome for changes of names whose directory was not synced."""

    KEPT = "all of them are there"
    LOST = "none of them is there"
    SOME = "those up to some moment are there"


@attrs.frozen
class PowerCut:
    """One outcome of a power failure; `seed` decides what the fates leave open."""

    data: DataFate
    names: NameFate
    seed: int = 0

    def leave(self, device: Device, place: Path) -> None:
        """Write the content of the device afterwards into the new directory `place`."""
        choose = random.Random(self.seed)
        contents = {node: self._content(file, choose) for node, file in device.files.items()}
        names = {node: self._names(entry, choose) for node, entry in device.directories.items()}
        _write_tree(ROOT, place, names, contents)

    def _names(self, directory: StoredDirectory, choose: random.Random) -> Names:
        pending = directory.pending
        kept = {NameFate.KEPT: len(pending), NameFate.LOST: 0}.get(self.names)
        if kept is None:
            kept = choose.randint(0, len(pending))
        names = directory.durable
        for operation in pending[:kept]:
            names = with_names(names, operation)
        return names

    def _content(self, file: StoredFile, choose: random.Random) -> DeviceContent:
        if not file.pending:
            return file.durable
        match self.data:
            case DataFate.KEPT:
                return file.cached
            case DataFate.LOST:
                return file.durable
            case DataFate.ZEROS | DataFate.NONSENSE:
                return self._grown(file, choose)
            case DataFate.TORN:
                return _torn(file, choose)
            case DataFate.SCATTERED:
                return _scattered(file, choose)
            case DataFate.OVERGROWN:
                return _overgrown(file, choose)

    def _grown(self, file: StoredFile, choose: random.Random) -> DeviceContent:
        written, kept = len(file.cached.data), file.durable.read(0, file.durable.size)
        missing = max(written - len(kept), 0)
        filler = bytes(missing) if self.data is DataFate.ZEROS else choose.randbytes(missing)
        return DeviceContent(kept + filler, max(file.cached.size, file.durable.size))


PROCESS_ENDS = PowerCut(DataFate.KEPT, NameFate.KEPT)
"""The machine keeps running, so that everything that was written is there."""


def _torn(file: StoredFile, choose: random.Random) -> DeviceContent:
    whole = choose.randrange(len(file.pending))
    content = file.durable
    for operation in file.pending[:whole]:
        content = content.after(operation)
    last = file.pending[whole]
    if isinstance(last, WriteBytes):
        end = last.position + len(last.data)
        boundaries = range(last.position - last.position % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES)
        cut = choose.choice([last.position, *boundaries])
        last = attrs.evolve(last, data=last.data[: cut - last.position])
    return content.after(last)


def _scattered(file: StoredFile, choose: random.Random) -> DeviceContent:
    sizes = {file.durable.size}
    content = file.durable
    for operation in file.pending:
        content = content.after(operation)
        sizes.add(content.size)
    size = choose.choice(sorted(sizes))
    filled = min(size, max(len(file.durable.data), len(file.cached.data)))
    old, new = (side.read(0, filled).ljust(filled, b"\0") for side in (file.durable, file.cached))
    sectors = [choose.choice([old, new])[at : at + SECTOR_BYTES] for at in range(0, filled, SECTOR_BYTES)]
    return DeviceContent(b"".join(sectors), size)


def _overgrown(file: StoredFile, choose: random.Random) -> DeviceContent:
    size = file.cached.size
    extra = BLOCK_BYTES * choose.randint(1, 2) - size % BLOCK_BYTES
    return file.cached.after(WriteBytes(0, size, choose.choice([bytes(extra), choose.randbytes(extra)])))


def _write_tree(node: int, place: Path, names: dict[int, Names], contents: dict[int, DeviceContent]) -> None:
    place.mkdir(parents=True)
    for name, child in names[node].items():
        content = contents.get(child)
        if content is None:
            _write_tree(child, place / name, names, contents)
            continue
        (place / name).write_bytes(content.data)
        if content.size > len(content.data):
            os.truncate(place / name, content.size)
