"""Producer state of one partition together with its snapshots.

A snapshot is written in the background at every roll, and at the log end when the partition is closed. After
a start or a truncation the state comes from the newest snapshot that can be read and the log above it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.log.producers import NO_OFFSET, ProducerStates
from tidelog.kernel.log.snapshots import (
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
    snapshot_offsets,
)
from tidelog.kernel.records.batch import NO_PRODUCER_ID
from tidelog.kernel.records.control import EndMarker, decode_marker
from tidelog.kernel.seams.storage import region_bytes

if TYPE_CHECKING:
    from tidelog.kernel.log.epochs import LeaderEpochFileCache
    from tidelog.kernel.log.side_writes import SideWrites
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)

MAX_OFFSET = 2**63 - 1


class ProducerStateManager(ProducerStates):
    """Producers and transactions of one partition, their snapshots and the aborted transactions' index."""

    __slots__ = ("_name", "_side_writes", "_store")

    def __init__(self, name: str, store: PartitionStore, side_writes: SideWrites) -> None:
        """`name` of the partition, for logs; there are no producers until `load_snapshot` and `replay`."""
        super().__init__()
        self._name = name
        self._store = store
        self._side_writes = side_writes

    def apply_marker(self, header: BatchHeader, base_offset: int, marker: EndMarker) -> None:
        """End a transaction whose marker is in the log at `base_offset`; index it if it was aborted.

        Raises:
            OSError: the transaction index takes no entry; the state is as before.
        """
        # The index before the state, which stays as it is if the disk refuses: committed readers must not
        # come past an aborted transaction that the index lacks.
        aborted = self.aborted_by(header, base_offset, marker)
        if aborted is not None:
            self._store.add_aborted(aborted)
        self.end_transaction(header, base_offset, marker)

    def snapshot_soon(self, offset: int) -> None:
        """Write the producers of now as the snapshot of `offset`, in the background."""
        # Encoded now: the next append changes the producers before a thread gets to it.
        self._side_writes.soon(f"snapshot {self._name}", snapshot_name(offset), encode_snapshot(self.entries))

    def write_snapshot(self, offset: int) -> None:
        """Blocking: write the producers of now as the snapshot of `offset`.

        A refusal of the disk is only logged: without a snapshot the next start reads more of the log.
        """
        try:
            self._store.write_side_file(snapshot_name(offset), encode_snapshot(self.entries))
        except OSError as error:
            _log.warning(
                "%s: no snapshot of its producers (%s); the next start reads more of the log instead",
                self._name,
                error,
            )

    def remove_snapshots(self, *, below: int = 0, above: int = MAX_OFFSET) -> None:
        """Blocking: remove the snapshots that were taken below one offset and above another.

        Below, the newest stays unless there is one at that offset: producers whose batches are deleted are
        known from it.
        """
        offsets = snapshot_offsets(self._store.side_files())
        keep_from = max((offset for offset in offsets if offset <= below), default=below)
        for offset in offsets:
            if not keep_from <= offset <= above:
                # One from above would be of another history as soon as the log has grown beyond it.
                self._store.delete_side_file(snapshot_name(offset), durable=offset > above)

    def remove_snapshots_soon(self, *, below: int) -> None:
        """Remove snapshots below an offset (but for the newest of them), in the background."""
        self._side_writes.run_soon(f"snapshots {self._name}", lambda: self.remove_snapshots(below=below))

    def remove_stray_snapshots(self) -> None:
        """Blocking: remove snapshots at which no segment begins, except the newest one.

        Clean stops leave them, each later one makes those before it useless; and replacements, by which
        several segments become one.
        """
        store = self._store
        # The newest stays though no segment begins there: that of a clean stop saves the next start from
        # reading the log.
        *older, _ = snapshot_offsets(store.side_files()) or [NO_OFFSET]
        # After the list of snapshots: segments that begin meanwhile do not matter.
        bases = {segment.base_offset for segment in store.segments()} if older else set[int]()
        for offset in older:
            if offset not in bases:
                store.delete_side_file(snapshot_name(offset))

    def write_missing_snapshot(self) -> None:
        """Blocking: write one at the log end if a log of several segments has none, and was read for that."""
        store = self._store
        end = store.log_end_offset
        if end and not snapshot_offsets(store.side_files()) and len(store.segments()) > 1:
            self.write_snapshot(end)

    def load_snapshot(self, newest: int) -> int:
        """Blocking: take the producers from the newest readable snapshot at or below offset `newest`.

        Returns its offset; without one there are no producers, and 0 is returned. Snapshots that cannot be
        read are removed. One from before the oldest segment is of no use: batches behind it are gone, and
        their producers would be refused for a gap in their sequences, while unknown producers are not.
        """
        store = self._store
        oldest = store.first_segment_offset
        for offset in reversed(snapshot_offsets(store.side_files())):
            if not oldest <= offset <= newest:
                continue
            name = snapshot_name(offset)
            content = store.read_side_file(name)
            try:
                self.restore(decode_snapshot(content or b""))
            except StorageError as error:
                _log.warning("%s: %s is dropped: %s", self._name, name, error)
                store.delete_side_file(name)
            else:
                return offset
        self.restore({})
        return 0

    def reload(self, epochs: LeaderEpochFileCache, *, newest_snapshot: int, whole_log: bool) -> None:
        """Blocking: restore producers from a snapshot at or below that offset and the log above it.

        Aborted transactions that the store does not know are added to it. `epochs` are learned from what is
        read on the way, with `whole_log` from all of the log.

        Raises:
            OSError: the disk refused.
        """
        store = self._store
        snapshot_offset = self.load_snapshot(newest_snapshot)
        # Producers are known from batches below the log start, too, as long as those are there.
        from_offset = max(snapshot_offset, store.first_segment_offset)
        if whole_log:
            # Epochs are needed from the log start on, producers only above the snapshot: the loop keeps them
            # apart.
            from_offset = min(from_offset, store.log_start_offset)
        if from_offset >= store.log_end_offset:
            return
        for header in store.headers(from_offset):
            # Batches below the log start cannot be read any more, so the lineage has none of their epochs.
            if header.next_offset > store.log_start_offset:
                epochs.assign(header.leader_epoch, header.base_offset)
            if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:
                self.replay(header)

    def replay(self, header: BatchHeader) -> None:
        """Blocking: take in a producer's batch that is in the log; checks are not repeated."""
        offset = header.base_offset
        if not header.is_control:
            self.update(header, offset)
        elif (marker := self._read_marker(header)) is not None:
            self.apply_marker(header, offset, marker)

    def _read_marker(self, header: BatchHeader) -> EndMarker | None:
        """Read the marker in a control batch; return None without one, and log one that is malformed."""
        offset = header.base_offset
        # `offset + 1` limits the read to this batch.
        found = self._store.read_batches(offset, header.size, offset + 1, wait=True)
        try:
            return decode_marker(b"".join(map(region_bytes, found.regions)), header)
        except BrokerError as error:
            _log.error("%s: the control batch at offset %d: %s", self._name, offset, error)
            return None
