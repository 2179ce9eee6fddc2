"""What a load reads: ranges of offsets, fixed at its first start, in chunks that are committed one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.ranges import OffsetRange

Chunk: TypeAlias = "tuple[OffsetRange, ...]"
"""Ranges of different partitions, which one job of Spark writes."""

VERSION: Final = 1


@attrs.frozen
class LoadPlan:
    """What was fixed at the first start.

    Attributes:
        request: the identity of the request
        topic_ids: id of each topic, None where the broker has none
        task_records: offsets that one task reads at most
        chunks: what is committed at once, in its order
    """

    request: Mapping[str, Any]
    topic_ids: Mapping[str, str | None]
    task_records: int
    chunks: tuple[Chunk, ...]

    @property
    def size(self) -> int:
        """Return the number of offsets, which may be more than there are records."""
        return sum(map(chunk_size, self.chunks))

    def partitions(self, numbers: Iterable[int]) -> dict[TopicPartition, OffsetRange]:
        """Return what chunks have of each partition, from their first offset to their last one."""
        found: dict[TopicPartition, OffsetRange] = {}
        for number in sorted(numbers):
            for each in self.chunks[number]:
                first = found.get(each.partition, each)
                found[each.partition] = attrs.evolve(first, stop=each.stop)
        return found

    def encode(self) -> bytes:
        """Return the plan as JSON."""
        chunks = [
            [[each.partition.topic, each.partition.partition, each.start, each.stop] for each in chunk]
            for chunk in self.chunks
        ]
        content = {
            "version": VERSION,
            "request": dict(self.request),
            "topic_ids": dict(self.topic_ids),
            "task_records": self.task_records,
            "chunks": chunks,
        }
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, content: bytes, where: str) -> LoadPlan:
        """Return the plan of a file; `where` names it in errors.

        Raises:
            LoadFailed: it is not a plan, or that of another version.
        """
        try:
            found = json.loads(content)
            if found["version"] != VERSION:
                raise LoadFailed(
                    f"{where} has the version {found['version']}, and this tidelog knows {VERSION}: continue "
                    "the load with the tidelog that began it, or begin again with --overwrite."
                )
            chunks = tuple(
                tuple(
                    OffsetRange(TopicPartition(topic, partition), start, stop)
                    for topic, partition, start, stop in chunk
                )
                for chunk in found["chunks"]
            )
            return cls(found["request"], found["topic_ids"], found["task_records"], chunks)
        except (KeyError, TypeError, ValueError) as error:
            raise LoadFailed(f"{where} is not the plan of a load ({error!r}). Was it edited?") from error


def chunk_size(chunk: Chunk) -> int:
    """Return the number of offsets of a chunk."""
    return sum(each.size for each in chunk)


def chunks_of(ranges: Sequence[OffsetRange], task_records: int, chunk_records: int) -> tuple[Chunk, ...]:
    """Share out ranges, one for each partition, among chunks of about `chunk_records` offsets at most.

    Pieces of at most `task_records` offsets are taken of all partitions in turn, so that the tasks of a chunk
    read from many partitions at once. A chunk has one range of a partition at most.
    """
    found: list[dict[TopicPartition, OffsetRange]] = []
    size = 0
    for piece in _in_turn(ranges, task_records):
        if not found or size + piece.size > chunk_records:
            found.append({})
            size = 0
        before = found[-1].get(piece.partition, piece)
        found[-1][piece.partition] = attrs.evolve(before, stop=piece.stop)
        size += piece.size
    return tuple(tuple(chunk.values()) for chunk in found)


def _in_turn(ranges: Sequence[OffsetRange], task_records: int) -> Iterator[OffsetRange]:
    pieces = (each.split(math.ceil(each.size / task_records)) for each in ranges)
    for turn in zip_longest(*pieces):
        yield from (piece for piece in turn if piece is not None)
