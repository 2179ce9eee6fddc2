"""Replay of `__consumer_offsets`: each record is applied by its owner, by the type in its key."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.plugins.coordinator.offsets.records import KEY_TYPES as OFFSET_KEY_TYPES
from tidelog.plugins.coordinator.runtime import LoadedBatch
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord, describe_key

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.groups.registry import GroupRegistry
    from tidelog.plugins.coordinator.offsets.store import OffsetStore

_log = logging.getLogger(__name__)

MAX_LOGGED: Final = 20
"""Most unreadable records of a partition that are logged one by one: a damaged log may have millions."""
_TYPE_BYTES: Final = 2
_OFFSET_KINDS: Final = frozenset(kind.to_bytes(_TYPE_BYTES, "big") for kind in OFFSET_KEY_TYPES)

ReplayRecord: TypeAlias = Callable[[int, bytes, bytes | None], Generator[None, None, None]]
"""Applies one record of a group: the number of its partition, its key and its value, None for a tombstone.

Yields after each small piece, as a group may be large; raises UnreadableRecord.
"""


class GroupReplay:
    """The `LogReader` of `__consumer_offsets`: hands each record to its owner, by the type in its key.

    Only offsets wait for the end of a transaction. Any other record counts at once, as in Kafka, and so does
    a tombstone of an offset.
    """

    def __init__(
        self, offsets: OffsetStore, groups: GroupRegistry, of_groups: Mapping[int, ReplayRecord]
    ) -> None:
        """`of_groups` are by the types of keys what applies records of groups."""
        self._offsets = offsets
        self._groups = groups
        self._of_groups = {key_type.to_bytes(_TYPE_BYTES): replay for key_type, replay in of_groups.items()}
        self._unknown: set[bytes] = set()
        self._left_out: Counter[int] = Counter()

    def settle(self, partition: int) -> Generator[None, None, None]:
        """Resume the groups of a partition that was read to its end, one a step."""
        return self._groups.settle(partition)

    def loaded(self, partition: int) -> None:
        """Finish a partition that is active from now on."""
        more = self._left_out.pop(partition, 0) - MAX_LOGGED
        if more > 0:
            _log.error("__consumer_offsets-%d has %d more records that cannot be read", partition, more)
        self._offsets.loaded(partition)

    def forget(self, partition: int) -> None:
        """Drop everything of a partition that was deleted."""
        self._offsets.forget_partition(partition)
        self._groups.forget_partition(partition)

    def replay(self, partition: int, batch: LoadedBatch) -> Generator[None, None, None]:
        """Apply the records of a batch; one that cannot be read is logged and left out."""
        if batch.marker is not None:
            self._offsets.complete_transaction(partition, batch.producer_id, batch.marker.commit)
        for index, (key, value) in enumerate(batch.records):
            kind = key[:_TYPE_BYTES]
            try:
                if kind in _OFFSET_KINDS:
                    self._replay_offset(partition, batch, index, key, value)
                else:
                    yield from self._replay_of_group(partition, kind, key, value)
            except UnreadableRecord as error:
                self._leave_out(partition, batch.offset_of(index), key, error)
            if not index % ITEMS_PER_STEP:
                yield

    def _replay_offset(
        self, partition: int, batch: LoadedBatch, index: int, key: bytes, value: bytes | None
    ) -> None:
        if batch.is_transactional and value is not None:
            offset = batch.offset_of(index)
            self._offsets.replay_transactional(partition, batch.producer_id, offset, key, value)
        else:
            self._offsets.replay(partition, key, value)

    def _replay_of_group(
        self, partition: int, kind: bytes, key: bytes, value: bytes | None
    ) -> Generator[None, None, None]:
        replay = self._of_groups.get(kind)
        if replay is None:
            self._log_unknown(partition, kind)
            return
        yield from replay(partition, key, value)
        if value is None:
            # The group may be gone: offsets behind this record create another.
            self._offsets.group_removed(partition, key)

    def _leave_out(self, partition: int, offset: int, key: bytes, error: UnreadableRecord) -> None:
        self._left_out[partition] += 1
        if self._left_out[partition] <= MAX_LOGGED:
            _log.error(
                "the record at offset %d of __consumer_offsets-%d cannot be read and is left out (%s): %s",
                offset,
                partition,
                describe_key(key),
                error,
            )

    def _log_unknown(self, partition: int, kind: bytes) -> None:
        """Log a type of key the first time it is seen.

        Raises:
            UnreadableRecord: the key is too short to have a type.
        """
        if len(kind) < _TYPE_BYTES:
            raise UnreadableRecord(f"a key of {len(kind)} byte(s) has no type")
        if kind not in self._unknown:
            self._unknown.add(kind)
            _log.warning(
                "__consumer_offsets-%d has records of type %d, which are left as they are",
                partition,
                int.from_bytes(kind, "big", signed=True),
            )
