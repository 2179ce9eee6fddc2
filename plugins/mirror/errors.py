"""Errors of a mirror: of one partition, which others survive, and those that only a user can end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.mirror.source_batches import OutgoingBatch

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class MirrorRefused(TidelogError):
    """The mirror cannot run as it is configured; trying again changes nothing."""


class PartitionRefused(ClientError):
    """The target does not take a batch of a partition, which `error` says why.

    The transaction can only be aborted, and nothing of it is in the target.
    """

    def __init__(self, partition: TopicPartition, error: ClientError, batch: OutgoingBatch | None) -> None:
        self.partition = partition
        self.error = error
        self.batch = batch
        super().__init__(self._text())

    @property
    def is_too_large(self) -> bool:
        """Return whether the batch is larger than the target allows."""
        return isinstance(self.error, ErrorResponse) and self.error.code in _TOO_LARGE

    def _text(self) -> str:
        if self.is_too_large and self.batch is not None and self.batch.record_count == 1:
            return (
                f"the record at offset {self.batch.first_offset} of the source takes "
                f"{len(self.batch.data)} bytes, more than max.message.bytes of {self.partition} at the "
                "target; raise it there"
            )
        return f"the target refuses a batch for {self.partition}: {self.error}"
