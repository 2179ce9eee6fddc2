"""Replay of a metadata log into an image: batches of snapshots and segments, in order."""

from __future__ import annotations

import struct
from collections import Counter

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.records.batch import BatchHeader, Buffer
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.seams.metadata import QuorumVoter
from tidelog.plugins.metadata_kraft.encoding import (
    FramedRecord,
    UnreadableMetadataRecord,
    control_type,
    unframe,
)
from tidelog.plugins.metadata_kraft.image import RecordImage
from tidelog.plugins.metadata_kraft.records.control import (
    CONTROL_TYPES,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.plugins.metadata_kraft.replay import apply_record
from tidelog.plugins.schema.compiled import decode
from tidelog.plugins.schema.errors import CodecError
from tidelog.plugins.schema.types import ZERO_UUID

_MESSAGES = {number: message for message, number in CONTROL_TYPES.items()}
_WITHOUT_EFFECT = (LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord)


@attrs.define
class MetadataReplay:
    """State of the replay.

    `transaction` are the records of one that has begun and not ended, None outside of any; they count only
    once it has ended. `bootstrap` is what a new log begins with. `last_timestamp` (milliseconds) is that of
    the newest batch. `unknown` counts records by types that this broker does not know.
    """

    image: RecordImage = attrs.field(factory=RecordImage)
    bootstrap: RecordImage = attrs.field(factory=RecordImage)
    kraft_version: int = 0
    voters: VotersRecord | None = None
    voters_in_log: bool = False
    transaction: list[FramedRecord] | None = None
    last_timestamp: int = 0
    last_epoch: int = 0
    unknown: Counter[int] = attrs.field(factory=Counter[int])

    def feed(self, header: BatchHeader, batch: Buffer, *, from_snapshot: bool = False) -> None:
        """Apply the next batch.

        Raises:
            UnreadableMetadataRecord: a record cannot be applied; the message names its offset.
        """
        offset = header.base_offset
        try:
            for record in iter_records(batch, header):
                offset = record.offset
                if header.is_control:
                    self._control(record, in_log=not from_snapshot)
                else:
                    self._metadata(unframe(record.value or b""))
        except (BrokerError, CodecError, struct.error) as error:
            raise UnreadableMetadataRecord(f"offset {offset}: {error}") from error
        # Time and epoch of a snapshot's batches are those of its writing, not of the log.
        if not from_snapshot:
            self.last_timestamp = header.max_timestamp
            self.last_epoch = header.leader_epoch

    def end_format_snapshot(self) -> None:
        """Take the metadata so far, which formatting wrote, as that of a new log.

        It has no effect before it is in the log (KIP-1170).
        """
        self.bootstrap, self.image = self.image, RecordImage()

    def quorum_voters(self, node_id: int) -> tuple[QuorumVoter, ...]:
        """Return the voters; with `kraft.version` 0 they are configured, which is the node itself here."""
        if self.kraft_version and self.voters is not None:
            return tuple(
                QuorumVoter(voter.voter_id, voter.voter_directory_id) for voter in self.voters.voters
            )
        return (QuorumVoter(node_id, ZERO_UUID),)

    def _control(self, record: Record, *, in_log: bool) -> None:
        number = control_type(record.key or b"")
        kind = _MESSAGES.get(number)
        if kind is None:
            raise UnreadableMetadataRecord(f"there is no control record of type {number}")
        if kind in _WITHOUT_EFFECT:
            return
        message = decode(kind, 0, record.value or b"")
        if isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self.voters = message
            self.voters_in_log = self.voters_in_log or in_log

    def _metadata(self, record: FramedRecord) -> None:
        message = record.message
        if isinstance(message, BeginTransactionRecord):
            self.transaction = []
        elif isinstance(message, AbortTransactionRecord):
            # What was read of it is dropped, since none of it was applied.
            self.transaction = None
        elif isinstance(message, EndTransactionRecord):
            records, self.transaction = self.transaction or [], None
            for each in records:
                self._apply(each)
        elif self.transaction is not None:
            self.transaction.append(record)
        else:
            self._apply(record)

    def _apply(self, record: FramedRecord) -> None:
        if record.message is None:
            self.unknown[record.api_key] += 1
        apply_record(self.image, record)
