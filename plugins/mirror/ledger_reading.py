"""Creating and reading the topics in which mirrors note what they have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.fetching import FetchLimits
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.operations.reading import PartitionReader
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.client.operations.topics import NewTopic, create_topics
from tidelog.plugins.mirror.ledger import Ledger, is_ledger_topic
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.kernel.records.record import Record
    from tidelog.plugins.client.steps import Session, Steps

LEDGER_CONFIG: Final = {
    "cleanup.policy": "compact",
    # Only segments that are full or old are compacted; a start reads all that is left.
    "segment.bytes": str(8 * 1024 * 1024),
    "segment.ms": str(3_600_000),
}
_COMMITTED: Final = FetchLimits(read_committed=True, max_wait_ms=0)


@attrs.define
class LedgerReader:
    """Reader of the ledger in a topic; a later `read` continues where the one before has ended."""

    partition: TopicPartition
    ledger: Ledger = attrs.field(factory=Ledger)
    _next: int | None = None

    def read(self, session: Session) -> Steps[Ledger]:
        """Apply all that is committed by now, and return the ledger.

        Raises:
            UnreadableLedger: the topic has something else.
            ClientError: the topic cannot be read.
        """
        if self._next is None:
            found = yield from list_offsets(session, [self.partition], EARLIEST_TIMESTAMP)
            self._next = or_raise(found)[self.partition].offset
        reader = PartitionReader(self.partition, self._next, None, _COMMITTED)
        while not reader.finished:
            records: list[Record] = yield from reader.poll(session)
            for record in records:
                self.ledger.apply(record)
            self._next = reader.position
        return self.ledger


def create_ledger_topic(session: Session, topic: str, replication_factor: int) -> Steps[None]:
    """Create the topic of a ledger unless it is there.

    Raises:
        ClientError: the target does not create it.
    """
    found = yield from metadata(session, [topic])
    if topic in found.topics:
        return
    new = NewTopic(topic, 1, replication_factor, LEDGER_CONFIG)
    outcome = (yield from create_topics(session, [new]))[topic]
    if isinstance(outcome, ErrorResponse) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome
    # Its leader may take a moment: what reads it first waits for that.
    session.cluster.forget_topic(topic)


@attrs.define
class SourceMirrors:
    """What mirrors have copied into a cluster, by their ledgers there.

    A mirror from that cluster uses it so that nothing comes back: records by the producer ids in the headers
    of their batches, copies under other names by the names of the topics.

    Attributes:
        target: cluster id of the target of the mirror that asks
        include_mirrored: records that other mirrors have copied are copied further, but for those that came
            from the target
    """

    target: str
    include_mirrored: bool
    _readers: dict[str, LedgerReader] = attrs.field(factory=dict[str, LedgerReader], init=False)
    _known: set[int] = attrs.field(factory=lambda: {-1}, init=False)

    def knows(self, producer_ids: set[int]) -> bool:
        """Return whether it is known of all these ids if they are of mirrors."""
        return producer_ids <= self._known

    def refresh(self, session: Session, producer_ids: set[int]) -> Steps[None]:
        """Read what mirrors have noted by now; after that, all these ids are known.

        A mirror notes its producer id in a transaction before the first with records.

        Raises:
            ClientError: the cluster cannot be asked.
            UnreadableLedger: a topic that is named as one of a ledger has something else.
        """
        found = yield from metadata(session)
        names = [name for name in found.topics if is_ledger_topic(name)]
        self._readers = {
            name: self._readers.get(name) or LedgerReader(TopicPartition(name, 0)) for name in names
        }
        for reader in self._readers.values():
            yield from reader.read(session)
        self._known |= producer_ids

    def left_out(self) -> frozenset[int]:
        """Return the producer ids whose records are not copied."""
        return frozenset(
            producer_id
            for ledger in self._ledgers()
            for producer_id, source in ledger.producers.items()
            if not self.include_mirrored or source == self.target
        )

    def copies(self) -> frozenset[str]:
        """Return the topics that are not copied: copies, under another name, of what came from elsewhere."""
        return frozenset(
            topic.target
            for ledger in self._ledgers()
            if not self.include_mirrored or ledger.source == self.target
            for name, topic in ledger.topics.items()
            if topic.target != name
        )

    def copied_both_ways(self) -> Mapping[str, str]:
        """Return the topics that a mirror copies here from the target, by their names there."""
        return {
            name: topic.target
            for ledger in self._ledgers()
            if ledger.source == self.target
            for name, topic in ledger.topics.items()
        }

    def _ledgers(self) -> list[Ledger]:
        return [reader.ledger for reader in self._readers.values()]
