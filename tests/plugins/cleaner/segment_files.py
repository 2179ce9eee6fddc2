"""What is in the files of a log, read without any broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel.records.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, parse_header, verify_crc
from tidelog.kernel.records.record import Record, iter_records
from tidelog.plugins.storage_file.directories.checkpoints import read_checkpoint, rewrite_checkpoint


class Batch(NamedTuple):
    """A batch, but for what depends on who compressed it, and on when it got its delete horizon."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer: tuple[int, int, int]
    """Id, epoch, first sequence."""
    records: tuple[Record, ...]

    def without_clock(self) -> Batch:
        """The batch without the timestamps that a broker gave it."""
        if not self.attributes & (CONTROL_BIT | TIMESTAMP_TYPE_BIT):
            return self
        records = tuple(Record(each.offset, 0, each.key, each.value, each.headers) for each in self.records)
        return self._replace(max_timestamp=0, records=records)


def segments(folder: Path) -> dict[int, Sequence[Batch]]:
    """Base offset → batches, of each segment of a partition."""
    return {int(path.stem): _batches(path.read_bytes()) for path in sorted(folder.glob("*.log"))}


def batches(folder: Path) -> list[Batch]:
    """All batches of a partition."""
    return [batch for each in segments(folder).values() for batch in each]


def aborted_transactions(folder: Path) -> bytes:
    """The transaction indexes of a partition, one after the other."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.txnindex")))


def identities(folder: Path) -> Mapping[str, tuple[int, int]]:
    """What changes of each segment file when it is written anew."""
    stats = {path.name: path.stat() for path in folder.glob("*.log")}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def compacted_until(data: Path, topic: str) -> int:
    """How far a topic is compacted as the checkpoint has it, -1 if it is not there."""
    offsets = read_checkpoint(data / rewrite_checkpoint("compact"))
    return {key.topic: offset for key, offset in offsets.items()}.get(topic, -1)


def _batches(content: bytes) -> list[Batch]:
    found: list[Batch] = []
    position = 0
    while position < len(content):
        header = parse_header(content, position)
        batch = content[position : position + header.size]
        assert verify_crc(batch, header), f"the batch at {header.base_offset} has a wrong checksum"
        found.append(
            Batch(
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.attributes,
                header.max_timestamp,
                (header.producer_id, header.producer_epoch, header.base_sequence),
                tuple(iter_records(batch, header)),
            )
        )
        position += header.size
    return found
