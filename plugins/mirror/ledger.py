"""What a mirror has done, as records of a compacted topic in the target.

Each transaction that copies records also appends to this topic how far it has copied. So both are there or
neither, whatever ends between: after any failure the mirror fences itself as it was before (InitProducerId
ends what is in doubt), reads this topic, and continues from there.

It is a topic of its own, and not the committed offsets of a group, because offsets of a group without members
expire after a week, could not name topics that the target does not have, and have no place for the rest. Its
name ends in `.internal`, so that neither this mirror nor MirrorMaker 2 copies it.

The records are JSON, keys as arrays. Each value replaces that of an earlier record with the same key:

    ["mirror"]                     {"version", "name", "source": cluster id, "instance"}: who runs it
    ["producer", id]               {"source": cluster id}: what has this producer id, was copied from there
    ["topic", name]                {"id", "target", "target_id", "config"}: as the source was followed last
    ["position", topic, number]    {"next": offset at the source, "epoch": leader epoch of the record before}
    ["run", topic, number, n]      [source, length, target]: see `offset_translation`
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tidelog.kernel.errors import TidelogError
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord
from tidelog.plugins.mirror.offset_translation import CopiedRun, OffsetTranslation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.kernel.records.record import Record

VERSION: Final = 1
NO_EPOCH: Final = -1
TOPIC_PREFIX: Final = "tidelog-mirror."
TOPIC_SUFFIX: Final = ".internal"


class UnreadableLedger(TidelogError):
    """The topic with the positions of a mirror contains something else."""


@attrs.frozen
class FollowedTopic:
    """A topic of the source as it was followed last.

    Attributes:
        topic_id: its id as hexadecimal digits, all zeros where the source has none
        target: the name of its copy
        target_id: the id of the copy, likewise
        config: what the topic itself sets, by key
    """

    topic_id: str
    target: str
    target_id: str
    config: Mapping[str, str]


def ledger_topic(name: str) -> str:
    """Return the topic with what the mirror `name` has done."""
    return f"{TOPIC_PREFIX}{name}{TOPIC_SUFFIX}"


def is_ledger_topic(topic: str) -> bool:
    """Return whether a topic is that of some mirror."""
    return topic.startswith(TOPIC_PREFIX) and topic.endswith(TOPIC_SUFFIX)


class Ledger:
    """What one mirror has done and committed; `apply` is the only way in which it changes.

    Attributes:
        source: cluster id of the source, empty before the first start
        instance: random id of the process that runs the mirror
        producers: cluster id of the source by producer id
        topics: by name at the source
        positions: by partition of the source, the next offset to copy
        epochs: by partition of the source, the leader epoch of what was copied last, -1 where it is unknown
        maps: by partition of the source, the offsets of records at the target
    """

    def __init__(self) -> None:
        self.source = ""
        self.instance = ""
        self.producers: dict[int, str] = {}
        self.topics: dict[str, FollowedTopic] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.maps: dict[TopicPartition, OffsetTranslation] = {}

    def apply(self, record: Record | NewRecord) -> None:
        """Apply a record of the topic.

        Raises:
            UnreadableLedger: it is none of a mirror, or of a newer version.
        """
        try:
            key = json.loads(record.key or b"")
            value = None if record.value is None else json.loads(record.value)
            self._apply(key, value)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise UnreadableLedger(
                f"a record of the mirror's own topic cannot be read ({error}): something else writes to it, "
                "or a newer version of tidelog has"
            ) from error

    def _apply(self, key: list[Any], value: Any) -> None:
        match key:
            case ["mirror"]:
                if value["version"] > VERSION:
                    raise ValueError(f"version {value['version']}")
                self.source, self.instance = value["source"], value["instance"]
            case ["producer", int() as producer_id]:
                self.producers[producer_id] = value["source"]
            case ["topic", str() as name]:
                self.topics[name] = FollowedTopic(**cast("dict[str, Any]", value))
            case ["position", str() as topic, int() as number]:
                self._apply_position(TopicPartition(topic, number), value)
            case ["run", str() as topic, int() as number, int() as run]:
                offsets = self.maps.setdefault(TopicPartition(topic, number), OffsetTranslation())
                if value is None:
                    offsets.remove(run)
                else:
                    offsets.add(run, CopiedRun(*value))
            case _:
                raise ValueError(f"the key {key}")

    def _apply_position(self, partition: TopicPartition, value: Any) -> None:
        if value is None:
            self.positions.pop(partition, None)
            self.epochs.pop(partition, None)
        else:
            self.positions[partition], self.epochs[partition] = int(value["next"]), int(value["epoch"])

    def forget_topic(self, name: str) -> list[NewRecord]:
        """Return the records that let the partitions of a topic begin again."""
        records: list[NewRecord] = []
        for partition in self.positions:
            if partition.topic == name:
                records += [_record(["position", *partition], None), *self._forget_runs(partition)]
        return records

    def begun_again(self, partition: TopicPartition, offset: int) -> list[NewRecord]:
        """Return the records that let a partition be copied again from an offset on."""
        return [start_record(partition, offset), *self._forget_runs(partition)]

    def truncated(self, partition: TopicPartition, offset: int) -> list[NewRecord]:
        """Return the records that let a partition continue at an offset before its position.

        What was copied of the source from there on has no translation any more.
        """
        records = [start_record(partition, offset)]
        offsets = self.maps.get(partition) or OffsetTranslation()
        for number, run in offsets.behind(offset):
            length = offset - run.source
            kept = list(CopiedRun(run.source, length, run.target)) if length > 0 else None
            records.append(_record(["run", *partition, number], kept))
        return records

    def _forget_runs(self, partition: TopicPartition) -> list[NewRecord]:
        offsets = self.maps.get(partition) or OffsetTranslation()
        return [_record(["run", *partition, number], None) for number in offsets.numbers()]

    def copied(
        self, partition: TopicPartition, next_offset: int, epoch: int, runs: Iterable[CopiedRun]
    ) -> list[NewRecord]:
        """Return the records of a transaction that has copied runs of a partition, the last of an epoch.

        Of several runs the first and the last one are kept: more are in no relation to what a group gains.
        """
        offsets = self.maps.get(partition) or OffsetTranslation()
        records = [_record(["position", *partition], {"next": next_offset, "epoch": epoch})]
        merged = merged_runs(runs)
        number = offsets.next_number
        for run in merged if len(merged) < 2 else [merged[0], merged[-1]]:
            records.append(_record(["run", *partition, number], list(run)))
            number += 1
        records += [_record(["run", *partition, each], None) for each in offsets.superfluous(number)]
        return records


def mirror_record(name: str, source: str, instance: str) -> NewRecord:
    """Return the record with which a process takes over a mirror."""
    return _record(["mirror"], {"version": VERSION, "name": name, "source": source, "instance": instance})


def start_record(partition: TopicPartition, offset: int) -> NewRecord:
    """Return the record of where the copy of a partition begins."""
    return _record(["position", *partition], {"next": offset, "epoch": NO_EPOCH})


def producer_record(producer_id: int, source: str) -> NewRecord:
    """Return the record by which other mirrors recognize what this one copies."""
    return _record(["producer", producer_id], {"source": source})


def topic_record(name: str, topic: FollowedTopic) -> NewRecord:
    """Return the record of a topic that was followed."""
    return _record(["topic", name], attrs.asdict(topic))


def merged_runs(runs: Iterable[CopiedRun]) -> list[CopiedRun]:
    """Return the runs, those that continue the one before as one with it."""
    merged: list[CopiedRun] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last is not None and (run.source, run.target) == (
            last.source + last.length,
            last.target + last.length,
        ):
            merged[-1] = CopiedRun(last.source, last.length + run.length, last.target)
        else:
            merged.append(run)
    return merged


def _record(key: list[Any], value: Any) -> NewRecord:
    encoded = None if value is None else json.dumps(value, separators=(",", ":")).encode()
    return NewRecord(encoded, json.dumps(key, separators=(",", ":")).encode())
