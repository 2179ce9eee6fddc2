"""Records of a request become one batch for each partition, or several that fit `max.message.bytes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.config import keys
from tidelog.kernel.errors import BrokerError, InvalidTopic, UnknownTopicOrPartition
from tidelog.kernel.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, pack_batch
from tidelog.plugins.client.producer.partitioners import murmur2_partition
from tidelog.plugins.client.producer.record_encoder import encode_records
from tidelog.plugins.protocol_http.formats import NO_PARTITION, BodyRecord
from tidelog.plugins.protocol_http.interception import RequestingClient, append

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import WireContext
    from tidelog.kernel.topics import Topic

NO_TIMESTAMP: Final = -1
RECORD_OVERHEAD_BYTES: Final = 40
"""More than a record takes beside its key, value and headers; and so does each header."""
BATCH_OVERHEAD_BYTES: Final = 128


class Appends:
    """The records of one request, and what became of each."""

    def __init__(
        self, broker: WireContext, client: RequestingClient, topic: Topic, now_ms: int, turn: int
    ) -> None:
        """`turn` is a number that grows with each request: records without a key go to partitions in turn."""
        if topic.is_internal:
            raise InvalidTopic(f"{topic.name} is the broker's own: clients may not write to it")
        self._broker = broker
        self._client = client
        self._topic = topic
        self._now_ms = now_ms
        self._keyless = turn % len(topic.partitions)
        self.outcomes: list[tuple[int, int | BrokerError]] = []
        """The partition of each record, and its offset or why it was refused."""

    async def append(self, records: Sequence[BodyRecord]) -> None:
        """Append the records; those of one partition keep their order."""
        places: dict[int, list[int]] = {}
        outcomes: list[tuple[int, int | BrokerError]] = []
        for place, record in enumerate(records):
            partition = self._partition(record)
            places.setdefault(partition, []).append(place)
            outcomes.append((partition, NO_PARTITION))
        for partition, its_places in places.items():
            for some in self._batches(records, its_places):
                try:
                    offset: int | BrokerError = await self._append(partition, [records[i] for i in some])
                except BrokerError as error:
                    offset = error
                for number, place in enumerate(some):
                    outcome = offset if isinstance(offset, BrokerError) else offset + number
                    outcomes[place] = partition, outcome
        self.outcomes += outcomes

    def _partition(self, record: BodyRecord) -> int:
        if record.partition != NO_PARTITION:
            return record.partition
        if record.key is None:
            return self._keyless
        return murmur2_partition(record.key, len(self._topic.partitions))

    def _batches(self, records: Sequence[BodyRecord], places: Sequence[int]) -> Iterator[Sequence[int]]:
        """Split the records of a partition where a batch would become too large."""
        most_bytes = self._topic.config[keys.MAX_MESSAGE_BYTES] - BATCH_OVERHEAD_BYTES
        some: list[int] = []
        size = 0
        for place in places:
            added = _size(records[place])
            if some and size + added > most_bytes:
                yield some
                some, size = [], 0
            some.append(place)
            size += added
        if some:
            yield some

    async def _append(self, partition: int, records: Sequence[BodyRecord]) -> int:
        """Append one batch; return its first offset once it may be acknowledged."""
        if partition >= len(self._topic.partitions):
            raise UnknownTopicOrPartition(f"topic {self._topic.name!r} has no partition {partition}")
        log = self._broker.replicas.log_of(self._topic.name, partition)
        return (await append(self._broker, self._client, log, self._batch(records))).base_offset

    def _batch(self, records: Sequence[BodyRecord]) -> bytearray:
        now_ms = self._now_ms
        queued = [
            (key, value, now_ms if timestamp == NO_TIMESTAMP else timestamp, headers)
            for _, key, value, timestamp, headers in records
        ]
        encoded, latest_ms = encode_records(queued)
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=0,
            crc=0,
            attributes=0,
            last_offset_delta=len(records) - 1,
            base_timestamp=queued[0][2],
            max_timestamp=latest_ms,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=NO_SEQUENCE,
            record_count=len(records),
        )
        return pack_batch(header, encoded)


def _size(record: BodyRecord) -> int:
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(RECORD_OVERHEAD_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return size
