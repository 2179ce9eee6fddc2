"""Files of a data directory: whatever is in one of them, opening recovers or says what is wrong.

An input is the number of a file and what it contains; all others are as a broker left them. With the number's
highest bit set, batches and snapshots get the CRC that they need to be believed: a fuzzer cannot guess it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import crc32c
import trio

from tests.crash.core import Core
from tests.fuzzing.target import Complaints
from tests.kernel.log.parts import compressed
from tidelog.kernel.errors import TidelogError
from tidelog.kernel.log import Isolation
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, parse_header
from tidelog.kernel.seams.storage.regions import region_bytes
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.clock import START_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from tidelog.kernel.log import UnifiedLog

_MEMORY = Path("/dev/shm")
_MOST_BYTES = 1 << 16
_READ_BYTES = 1 << 20
_MENDED = 0x80
_WITH_CRC = (".log", ".checkpoint", ".snapshot")
_CRC_AT, _BEHIND_CRC = 17, 21


class Directory:
    """A directory with segments, transactions and checkpoints: after a clean stop, and after a crash."""

    def __init__(self) -> None:
        self._complaints = Complaints()
        self._folder: TemporaryDirectory[str]
        self._files: list[tuple[str, bytes]] = []
        self._others: dict[str, dict[str, bytes]] = {}

    def __enter__(self) -> Directory:
        self._complaints.__enter__()
        self._folder = TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
        for name, clean in (("clean", True), ("crashed", False)):
            place = Path(self._folder.name) / name
            trio.run(_fill, place, clean)
            kept = {str(path.relative_to(place)): path.read_bytes() for path in _files_below(place)}
            self._others[name] = kept
            self._files += [(f"{name}/{path}", content) for path, content in kept.items()]
            shutil.rmtree(place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()
        self._complaints.__exit__(None, None, None)

    def seeds(self) -> Sequence[bytes]:
        """Return each file as it was, those with a CRC twice."""
        assert len(self._files) < _MENDED
        plain = [bytes([number]) + content[:_MOST_BYTES] for number, (_, content) in enumerate(self._files)]
        with_crc = [seed for seed in plain if self._files[seed[0]][0].endswith(_WITH_CRC)]
        return [*plain, *(bytes([seed[0] | _MENDED]) + seed[1:] for seed in with_crc)]

    def run(self, data: bytes) -> None:
        """Open the directory with that file, read all there is, and stop."""
        if not data or len(data) > _MOST_BYTES:
            return
        changed, _ = self._files[data[0] % _MENDED % len(self._files)]
        name, _, path = changed.partition("/")
        new = data[1:]
        if data[0] & _MENDED:
            new = mended_snapshot(new) if path.endswith(".snapshot") else mended(new)
        place = Path(self._folder.name) / "try"
        try:
            for other, content in self._others[name].items():
                target = place / other
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(new if other == path else content)
            trio.run(_open_and_read, place)
        finally:
            shutil.rmtree(place)
        self._complaints.raise_first()


def mended(data: bytes) -> bytes:
    """Return the file with the CRC of each batch that is whole set right."""
    out = bytearray(data)
    for position, header in _batches_in(data):
        crc = crc32c.crc32c(out[position + _BEHIND_CRC : position + header.size])
        out[position + _CRC_AT : position + _BEHIND_CRC] = crc.to_bytes(4)
    return bytes(out)


def mended_snapshot(data: bytes) -> bytes:
    """Return the producer snapshot with its CRC set right."""
    return data[:2] + crc32c.crc32c(data[6:]).to_bytes(4) + data[6:]


def _files_below(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


async def _fill(place: Path, clean: bool) -> None:
    core = Core(place)
    await core.open()
    topic = await core.create("orders", 1)
    await core.create("gone", 1)
    (partition,) = topic.partitions
    for number in range(12):
        partition.log.append_nowait(make_batch([bytes([number]) * 100] * 3, timestamps=START_MS + number))
    partition.log.append_nowait(compressed(make_batch([b"packed"] * 9), 4))
    for sequence, commit in enumerate((False, True)):
        batch = make_batch(
            [b"t"], producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        partition.log.append_nowait(batch, in_transaction=True)
        partition.log.append_marker(7, 0, 0, commit=commit)
    await core.topics.delete("gone")
    await core.tasks.wait_for_jobs()
    if clean:
        await core.close()
    else:
        core.abandon()


async def _open_and_read(place: Path) -> None:
    core = Core(place)
    try:
        await core.open()
    except TidelogError:
        core.abandon()
        return
    for topic in core.topics:
        for partition in topic.partitions:
            try:
                _read(partition.log)
            except TidelogError:
                continue
    try:
        await core.close()
    except TidelogError:
        core.abandon()


def _batches_in(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch, as far as that can be told."""
    position = 0
    while len(data) - position >= HEADER_BYTES:
        try:
            header = parse_header(data, position)
        except TidelogError:
            return
        if header.size < HEADER_BYTES or position + header.size > len(data):
            return
        yield position, header
        position += header.size


def _read(partition: UnifiedLog) -> None:
    offset = partition.log_start_offset
    while offset < partition.high_watermark:
        found = partition.read(offset, _READ_BYTES, Isolation.READ_UNCOMMITTED, wait=True)
        partition.aborted_transactions(offset, found)
        data = b"".join(region_bytes(region) for region in found.regions)
        ends = [header.last_offset + 1 for _, header in _batches_in(data)]
        if not ends or ends[-1] <= offset:
            break
        offset = ends[-1]
    partition.offset_for_timestamp(START_MS + 5)
    partition.offset_of_max_timestamp()
    partition.append_nowait(make_batch([b"after"]))
