"""Relocation of a group whose state is in the wrong partition of `__consumer_offsets`.

Both partitions may have state of one group, since earlier versions and Apache Kafka use different ones in the
same directory. Of two the newer one stays, by the timestamp of the record:

- each committed offset for itself;
- what makes up a group (its members, epochs and assignments) as a whole, since its records belong together.

An offset of a transaction is copied into the same transaction while that is open, and committed or dropped if
it was decided. What belongs to no transaction any more can never be committed, and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.classic_groups.changes import GenerationChange
from tidelog.plugins.coordinator.consumer_groups.group_changes import (
    EpochChange,
    PartitionMetadataChange,
    RegexChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.member_changes import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.log.log_image import NEVER, LogImage, PendingEntry
from tidelog.plugins.coordinator.log.misplaced import name_head
from tidelog.plugins.coordinator.log.relocation import Copies, Move
from tidelog.plugins.coordinator.log.topic_log import OFFSETS_TOPIC
from tidelog.plugins.coordinator.offsets.changes import KEY_TYPES as OFFSET_KEY_TYPES
from tidelog.plugins.coordinator.transactions.relocation import Outcome

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.transactions.relocation import UnfinishedTransactions

REMOVAL_ORDER: Final = (
    CurrentChange.key_type,
    TargetChange.key_type,
    TargetEpochChange.key_type,
    MemberChange.key_type,
    PartitionMetadataChange.key_type,
    RegexChange.key_type,
    EpochChange.key_type,
    GenerationChange.key_type,
)
"""Apache Kafka fails to load a group whose members are removed before what refers to them."""


class GroupRelocation:
    """The `RelocationPolicy` of `__consumer_offsets`."""

    key_types = frozenset(kind.to_bytes(2, "big") for kind in (*OFFSET_KEY_TYPES, *REMOVAL_ORDER))

    def __init__(self, partition_for: Callable[[str], int], transactions: UnfinishedTransactions) -> None:
        self._partition_for = partition_for
        self._transactions = transactions

    def partition_for(self, name: str) -> int:
        """Return the partition of a group's state."""
        return self._partition_for(name)

    async def plan(self, source: int, found: LogImage, target: int, there: LogImage) -> Move:
        """Return what to copy and what to remove; open transactions include `target` afterwards."""
        removed = {key for key, _, _ in found.live()}
        copies = [*_groups(found, there), *_offsets(found, there)]
        staying: set[bytes] = set()
        pending: list[Copies] = []
        for producer_id, held in found.pending.items():
            outcome = await self._transactions.outcome(producer_id, TopicPartition(OFFSETS_TOPIC, target))
            if outcome is Outcome.UNKNOWN:
                # A tombstone would take away what is pending.
                staying.update(held)
                continue
            removed.update(held)
            if outcome is not Outcome.ABORTED:
                pending += _pending(producer_id, held, there, committed=outcome is Outcome.COMMITTED)
        pending.sort(key=_time_of)
        return Move([*copies, *pending], sorted(removed - staying, key=_removal_rank))


def _kind(key: bytes) -> int:
    return int.from_bytes(key[:2], "big")


def _removal_rank(key: bytes) -> tuple[int, bytes]:
    kind = _kind(key)
    return REMOVAL_ORDER.index(kind) if kind in REMOVAL_ORDER else -1, key


def _time_of(copies: Copies) -> int:
    return copies.timestamp_ms


def _groups(found: LogImage, there: LogImage) -> Iterator[Copies]:
    """Return the records of each group that is not older than the one in `target`, after tombstones of that.

    The timestamps show how far an earlier run came: tombstones have that of the older group, so that copies
    have begun only if nothing of it is left.
    """
    groups, others = _by_group(found), _by_group(there)
    for head, records in groups.items():
        newest_ms = max(found.newest_ms(record.key) for record in records)
        there_ms = max((there.newest_ms(key) for key in _keys_of(there, head)), default=NEVER)
        if there_ms > newest_ms:
            continue
        if there_ms < newest_ms:
            kept = {record.key for record in records}
            going = [record.key for record in others.get(head, ()) if record.key not in kept]
            going.sort(key=_removal_rank)
            yield Copies(there_ms, [StateRecord(key, None) for key in going])
        yield Copies(newest_ms, records)


def _by_group(image: LogImage) -> dict[bytes, list[StateRecord]]:
    groups: dict[bytes, list[StateRecord]] = {}
    for key, _, value in image.live():
        if _kind(key) in REMOVAL_ORDER:
            groups.setdefault(name_head(key), []).append(StateRecord(key, value))
    return groups


def _keys_of(image: LogImage, head: bytes) -> Iterator[bytes]:
    return (key for key in image.entries if key.startswith(head, 2) and _kind(key) in REMOVAL_ORDER)


def _offsets(found: LogImage, there: LogImage) -> Iterator[Copies]:
    """Return the committed offsets that are not older than those in `target`, by their timestamps."""
    by_time: dict[int, list[StateRecord]] = {}
    for key, entry, value in found.live():
        if _kind(key) in OFFSET_KEY_TYPES and _newest_other_ms(key, found, there) <= entry.timestamp_ms:
            by_time.setdefault(entry.timestamp_ms, []).append(StateRecord(key, value))
    return (Copies(timestamp_ms, by_time[timestamp_ms]) for timestamp_ms in sorted(by_time))


def _newest_other_ms(key: bytes, found: LogImage, there: LogImage) -> int:
    """Return the newest timestamp there, without what an earlier run has copied of a transaction."""
    pending = (
        held[key].timestamp_ms
        for producer_id, held in there.pending.items()
        if key in held and key not in found.pending.get(producer_id, ())
    )
    return max(there.newest_ms(key), *pending, NEVER)


def _pending(
    producer_id: int, held: dict[bytes, PendingEntry], there: LogImage, *, committed: bool
) -> Sequence[Copies]:
    """Return a transaction's offsets that are not older than those in `target`; plain ones if committed."""
    copies: dict[tuple[int, int], list[StateRecord]] = {}
    for key, entry in held.items():
        if there.newest_ms(key) <= entry.timestamp_ms:
            place = copies.setdefault((entry.timestamp_ms, entry.producer_epoch), [])
            place.append(StateRecord(key, entry.value))
    return [
        Copies(timestamp_ms, records, None if committed else (producer_id, epoch))
        for (timestamp_ms, epoch), records in copies.items()
    ]
