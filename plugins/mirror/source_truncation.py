"""Up to where the log of a source still has what was copied of it.

A partition loses records when a replica becomes leader that lacks them, or when a leader loses what it had
not written to its disk. Each batch has the epoch of the leader that appended it. So as long as the batches
that follow are of the epoch of what was copied last, nothing was lost. Where another epoch follows, or
nothing is there any more, the source is asked where that epoch ends.

Source: KIP-101, KIP-320.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.client.errors import UnsupportedByBroker
from tidelog.plugins.client.operations.leader_epochs import EpochEnd, end_of_epoch
from tidelog.plugins.client.operations.sending import refresh, retrying

if TYPE_CHECKING:
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.steps import Session, Steps


def end_of_copied(session: Session, partition: TopicPartition, epoch: int) -> Steps[int | None]:
    """Return the offset where the source's log ends, or leaves that of what was copied last, of an epoch.

    None if the source does not know, as before Apache Kafka 0.11.

    Raises:
        ClientError: the source did not answer.
    """

    def attempt() -> Steps[EpochEnd]:
        yield from refresh(session, [partition.topic])
        return (yield from end_of_epoch(session, partition, epoch, session.cluster.leader_epoch(partition)))

    try:
        found = yield from retrying(session, attempt)
    except UnsupportedByBroker:
        return None
    return found.end_offset if found.end_offset >= 0 else None
