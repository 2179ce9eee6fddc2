"""How one task shares out its rows among record batches and requests, with a client that only keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
import pytest

from tests.plugins.spark_sink.writer.written import options, rows
from tests.tables import for_each
from tidelog.kernel.records import parse_header
from tidelog.kernel.records.record import Record, iter_records
from tidelog.plugins.client import EncodedBatch, TopicPartition
from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
from tidelog.plugins.spark_sink.writer import producing
from tidelog.plugins.spark_sink.writer.encoding import encode_batches
from tidelog.plugins.spark_sink.writer.producing import TaskProducer, gather
from tidelog.plugins.spark_sink.writer.rows import InvalidRow

OVERHEAD = 36
"""Bytes that a record has at most beside its key, its value and its headers."""


@attrs.frozen
class Found:
    """Metadata of topics, with as much as is looked at."""

    topics: Mapping[str, Any]
    errors: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


@attrs.frozen
class FoundTopic:
    """Has so many partitions."""

    partitions: Sequence[int]


class KeepingClient:
    """A client whose cluster has any topic, with so many partitions."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self.lookups: list[tuple[Sequence[str], bool]] = []
        self.requests: list[dict[TopicPartition, EncodedBatch]] = []
        self.stamped_with: list[tuple[int, object]] = []

    def run(self, operation: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run one of the operations below."""
        return getattr(self, f"_{operation.__name__}")(*args, **kwargs)

    def _metadata(self, topics: Sequence[str], *, create: bool) -> Found:
        self.lookups.append((topics, create))
        return Found({topic: FoundTopic(range(self._partitions)) for topic in topics})

    def _produce_batches(
        self, batches: Mapping[TopicPartition, EncodedBatch], *, acks: int, producer: object
    ) -> dict[TopicPartition, int]:
        self.requests.append(dict(batches))
        self.stamped_with.append((acks, producer))
        return dict.fromkeys(batches, 0)

    def records(self, partition: int | None = None) -> list[Record]:
        """What was sent, in its order."""
        batches = [each for request in self.requests for each in request.items()]
        wanted = [batch for where, batch in batches if partition in (None, where.partition)]
        stamped = [batch.stamped() for batch in wanted]
        return [record for data in stamped for record in iter_records(data, parse_header(data))]

    def sizes(self) -> list[dict[int, int]]:
        """The number of records for each partition, of each request."""
        return [
            {where.partition: batch.record_count for where, batch in request.items()}
            for request in self.requests
        ]


def writing(client: KeepingClient, producer: Any = None, run: int = 0, **given: str) -> TaskProducer:
    """A task's producer for topic t, whose first run of rows without a partition goes to partition `run`."""
    chosen = options("localhost:9092", streaming=False, topic="t", **given)
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise at random, so that tasks begin with different partitions.
        patch.setattr(f"{producing.__name__}._random.randrange", {2**31: run}.__getitem__)
        return TaskProducer(cast("BlockingDriver", client), chosen, producer)


def values(*sizes: int) -> list[bytes]:
    """Values that are records of these sizes."""
    return [bytes(size - OVERHEAD) for size in sizes]


@for_each(
    ("sizes", "batch_bytes", "expected"),
    [
        ([50, 50], "100", [2]),  # as many as fit
        ([50, 51], "100", [1, 1]),
        ([50, 50, 50], "100", [2, 1]),
        ([300, 40, 60], "100", [1, 2]),  # one that does not fit is alone
        ([40, 300, 60], "100", [1, 1, 1]),
        ([40, 40], "1", [1, 1]),
        ([40, 40], "0", [1, 1]),
    ],
)
def test_a_batch_has_as_many_records_as_fit(sizes: list[int], batch_bytes: str, expected: list[int]) -> None:
    client = KeepingClient(2)
    task = writing(client, kafka__batch__size=batch_bytes)
    task.write(rows(value=values(*sizes), partition=[1] * len(sizes)), 7)
    assert client.sizes() == [{1: count} for count in expected]
    assert (task.written.rows, task.written.data_bytes) == (len(sizes), sum(sizes) - OVERHEAD * len(sizes))


def test_the_first_batches_of_all_partitions_are_sent_before_the_second_ones() -> None:
    client = KeepingClient(3)
    task = writing(client, kafka__batch__size="100")
    given = [b"a%d" % each for each in range(9)]
    task.write(rows(value=[each + bytes(48) for each in given], partition=[2, 0, 0, 2, 2, 1, 0, 0, 2]), 7)
    assert client.sizes() == [{0: 1, 1: 1, 2: 1}, {0: 1, 2: 1}, {0: 1, 2: 1}, {0: 1, 2: 1}]
    found = {part: [each.value[:2] for each in client.records(part) if each.value] for part in range(3)}
    assert found == {0: [b"a1", b"a2", b"a6", b"a7"], 1: [b"a5"], 2: [b"a0", b"a3", b"a4", b"a8"]}
    assert task.markable == {"t": TopicPartition("t", 0)}
    task.write(rows(value=[b"v"], partition=[1]), 7)
    assert task.markable == {"t": TopicPartition("t", 0)}, "one for each topic, and always the same one"


@for_each(
    ("most", "expected"),
    [
        # Each batch has 1 record of 5 bytes and the size of its value, 47 bytes of 40.
        (2 * 47, [{0: 1, 1: 1}, {2: 1}, {0: 1, 2: 1}]),
        (2 * 47 - 1, [{0: 1}, {1: 1}, {2: 1}, {0: 1}, {2: 1}]),
        (3 * 47, [{0: 1, 1: 1, 2: 1}, {0: 1, 2: 1}]),
        (1, [{0: 1}, {1: 1}, {2: 1}, {0: 1}, {2: 1}]),
    ],
)
def test_a_request_has_as_many_batches_as_fit(most: int, expected: list[dict[int, int]]) -> None:
    client = KeepingClient(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producing, "REQUEST_BYTES", most)
        writing(client, kafka__batch__size="1").write(
            rows(value=[bytes(40)] * 5, partition=[0, 0, 1, 2, 2]), 7
        )
    assert {len(batch.records) for request in client.requests for batch in request.values()} == {47}
    assert client.sizes() == expected


@for_each("most", [1, 75, 76, 77, 200, 10**6])
def test_rows_are_encoded_in_parts_without_a_difference(most: int) -> None:
    client = KeepingClient(3)
    given = [b"%d" % each for each in range(20)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producing, "_ENCODED_BYTES", most)
        writing(client, kafka__batch__size="80").write(
            rows(value=given, partition=[each % 3 for each in range(20)]), 7
        )
    for part in range(3):
        assert [each.value for each in client.records(part)] == given[part::3]
    sent = [batch.record_count for request in client.requests for batch in request.values()]
    assert sorted(sent) == [1, 1, *[2] * 9], "batches are as large as without parts"


def test_parts_that_are_encoded_together_are_no_larger_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[int] = []
    encode = encode_batches

    def kept(records: Any, starts: Any, *codec: Any) -> Any:
        encoded.append(int(records.most_sizes().sum()))
        return encode(records, starts, *codec)

    monkeypatch.setattr(producing, "encode_batches", kept)
    for most, expected in ((150, [150, 50]), (149, [100, 100]), (200, [200]), (1, [50] * 4)):
        encoded.clear()
        monkeypatch.setattr(producing, "_ENCODED_BYTES", most)
        writing(KeepingClient(1), kafka__batch__size="1").write(rows(value=values(50, 50, 50, 50)), 7)
        assert encoded == expected


def test_limits_are_those_of_the_documentation() -> None:
    assert producing.BLOCK_BYTES == 4 * 2**20
    assert producing.REQUEST_BYTES == 8 * 2**20


def test_rows_without_keys_stay_in_a_partition_over_blocks_until_so_many_bytes_are_written() -> None:
    client = KeepingClient(3)
    task = writing(client, run=2, kafka__batch__size="100")
    for sizes in ((50, 50, 50), (49, 50, 50), (250,), (50,)):
        # The partition of the key 21 is (-973932308 & 0x7fffffff) % 3 = 0.
        keys = [None, b"21", None][: len(sizes)]
        task.write(rows(key=keys, value=values(*sizes)), 7)
    # Runs 2, 2 + 1 + 100 // 100 = 4, 4 + 1 + 99 // 100 = 5 and 5 + 1 + 250 // 100 = 8.
    assert client.sizes() == [{0: 1, 2: 2}, {0: 1, 1: 2}, {2: 1}, {2: 1}]


def test_partitions_of_rows_are_their_own_before_those_of_their_keys() -> None:
    client = KeepingClient(5)
    batch = rows(
        key=[b"abc", b"abc", None, None], value=[b"a", b"b", b"c", b"d"], partition=[0, None, None, 1]
    )
    writing(client, run=1).write(batch, 7)
    found = {part: [each.value for each in client.records(part)] for part in range(3)}
    assert found == {0: [b"a"], 1: [b"c", b"d"], 2: [b"b"]}, "the hash of abc is 479470107, 2 modulo 5"
    client = KeepingClient(5)
    writing(client, run=1, kafka__partitioner__ignore__keys="true").write(batch, 7)
    found = {part: [each.value for each in client.records(part)] for part in range(3)}
    assert found == {0: [b"a"], 1: [b"b", b"c", b"d"], 2: []}


def test_timestamps_are_those_of_the_rows_or_now() -> None:
    client = KeepingClient(1)
    table = rows(value=[b"a", b"b", b"c"])
    task = writing(client)
    task.write(table, 1234)
    assert [each.timestamp for each in client.records()] == [1234] * 3
    assert client.lookups == [(["t"], True)]
    task.write(table, 1234)
    assert len(client.lookups) == 1, "the number of partitions is asked for once"


@for_each(
    ("size", "most", "is_written"),
    [(100, "100", True), (101, "100", False), (37, "37", True), (38, "37", False)],
)
def test_the_largest_record_is_that_of_max_request_size(size: int, most: str, is_written: bool) -> None:
    client = KeepingClient(1)
    task = writing(client, kafka__max__request__size=most)
    batch = rows(value=values(37, size))
    if is_written:
        task.write(batch, 7)
        assert len(client.records()) == 2
        return
    with pytest.raises(InvalidRow, match=f"up to {size} bytes, more than the option .* allows: {most}"):
        task.write(batch, 7)
    assert not client.requests


@for_each(("partition", "is_written"), [(0, True), (1, True), (2, False)])
def test_the_highest_partition_is_that_of_the_topic(partition: int, is_written: bool) -> None:
    client = KeepingClient(2)
    if is_written:
        writing(client).write(rows(value=[b"v"], partition=[partition]), 7)
        assert client.sizes() == [{partition: 1}]
        return
    with pytest.raises(InvalidRow, match=f"a row has partition {partition}, and topic 't' has 2 of them"):
        writing(client).write(rows(value=[b"v"], partition=[partition]), 7)


def test_requests_have_acks_codec_and_producer_of_the_task() -> None:
    client, producer = KeepingClient(1), object()
    given = {"kafka__acks": "1", "kafka__compression__type": "gzip", "kafka__compression__gzip__level": "9"}
    writing(client, producer, 0, **given).write(rows(value=[bytes(1000)]), 7)
    assert client.stamped_with == [(1, producer)]
    (batch,) = client.requests[0].values()
    assert batch.codec == 1
    assert len(batch.records) < 100


@for_each(
    ("counts", "most", "expected"),
    [
        ([1, 1], 104 * 2, [2]),
        ([1, 1], 104, [1, 1]),
        ([1, 1, 1], 105, [2, 1]),
        ([1] * 6, 209, [3, 3]),
        ([1] * 5, 208, [2, 2, 1]),
        ([], 1, []),
        ([5], 1, [5]),
        ([0], 1, [0]),
    ],
)
def test_gather_joins_blocks_until_they_have_so_many_bytes(
    counts: list[int], most: int, expected: list[int]
) -> None:
    blocks = [rows(value=[bytes(100)] * count) for count in counts]
    if blocks and counts[0] == 1:
        assert blocks[0].nbytes == 104
    found = list(gather(blocks, most))
    assert [each.num_rows for each in found] == expected
