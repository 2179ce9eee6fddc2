"""Ranges read from a broker that restarts or is gone, and ranges of which something is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import Any
from uuid import UUID

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import LOOPBACK, free_port, running_tidelog
from tests.plugins.spark_sink.queries import Query, new_topic, values
from tidelog.kernel.records import parse_header, stamp_offset
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import FetchedBatch, NewRecord
from tidelog.plugins.client.batches import build_batch
from tidelog.plugins.client.cluster import ClusterMetadata
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError, ErrorResponse, RequestTimedOut
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.offsets import FoundOffset, list_offsets
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source import reading
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.options import parse_options

VALUE = "v" * 1000


def test_a_task_and_a_plan_outlast_a_restart_of_the_broker(tmp_path: Path) -> None:
    port = free_port()
    with running_tidelog(tmp_path, settings={"listeners": f"PLAINTEXT://{LOOPBACK}:{port}"}) as server:
        server.requested_port = port
        with new_topic(server.bootstrap) as topic:
            for _ in range(50):
                topic.produce(0, [VALUE])
            small: dict[str, Any] = {
                "kafka__max__partition__fetch__bytes": 4000,
                "startingOffsets": "earliest",
                "prefetchOffsets": 0,
            }
            with Query(topic, **small) as query:
                query.plan()
                (task,) = query.tasks(0)
                rows = 0
                for number, batch in enumerate(query.reader.read(task)):
                    rows += batch.num_rows
                    if number == 0:
                        server.kill()
                        Timer(0.3, server.start).start()
                assert rows == 50
                topic.produce(0, ["after"])
                server.kill()
                restart = Timer(0.3, server.start)
                restart.start()
                assert values(query.next_rows()) == ["after"]
                restart.join(DEADLINE_S)


def test_a_deleted_topic_fails_a_task_or_ends_it(shared_tidelog: str) -> None:
    options: dict[str, Any] = {
        "startingOffsets": "earliest",
        "prefetchOffsets": 0,
        "kafkaConsumer__pollTimeoutMs": 300,
    }
    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["a"])
        with Query(topic, **options) as query:
            query.plan()
            (task,) = query.tasks(0)
            topic.delete()
            with pytest.raises(DataLost, match="its topic was deleted"):
                list(query.reader.read(task))
        with Query(topic, failOnDataLoss=False, **options) as query:
            assert list(query.reader.read(task)) == []


def test_an_address_without_a_broker_is_an_error_soon() -> None:
    options = {
        "kafka.bootstrap.servers": f"{LOOPBACK}:1",
        "subscribe": "t",
        "fetchOffset.retryIntervalMs": "1",
    }
    data_source = TidelogDataSource(options)
    with pytest.raises(BrokerUnreachable, match=f"{LOOPBACK}:1"):
        data_source.streamReader(data_source.schema()).initialOffset()


PARTITION = TopicPartition("t", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)
WANTED = OffsetRange(PARTITION, 5, 9, ID)
OUT_OF_RANGE = ErrorResponse(ErrorCode.OFFSET_OUT_OF_RANGE, "t-0")
TIMED_OUT = RequestTimedOut("Fetch", 1.0)
UNKNOWN = {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
AGAIN = "its topic was deleted and created again"


@attrs.frozen
class Poll:
    """What comes of a fetch, and how long it takes."""

    records: int = 0
    seconds: float = 0.0
    error: ClientError | None = None
    topic_id: UUID | None = ID


class Broker:
    """Stands for the driver, and for a broker that has these answers; its time is that of the reader."""

    def __init__(self, polls: Sequence[Poll], log_start: int, topic_errors: dict[str, ErrorCode]) -> None:
        self.polls = list(polls)
        self.now_s = 1000.0
        self._log_start = log_start
        self._topic_errors = topic_errors
        self._topic_id: UUID | None = None

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topic_id(self, topic: str) -> UUID | None:
        assert topic == "t"
        return self._topic_id

    def run(self, operation: Any, *_: object) -> Any:
        if operation is metadata:
            return ClusterMetadata(None, -1, {}, {}, self._topic_errors)
        if operation is list_offsets:
            return {PARTITION: FoundOffset(self._log_start)}
        return self._poll(operation.__self__)

    def _poll(self, reader: Any) -> list[FetchedBatch]:
        assert self.polls, "it is asked once too often"
        poll = self.polls.pop(0)
        self.now_s += poll.seconds
        self._topic_id = poll.topic_id
        if poll.error is not None:
            raise poll.error
        reader.log_end = 8
        if not poll.records:
            return []
        batch = build_batch([NewRecord(b"v")] * poll.records, now_ms=0)
        stamp_offset(batch, reader.position, 0)
        reader.position += poll.records
        return [(parse_header(batch), memoryview(batch))]


def offsets_read(broker: Broker, patch: pytest.MonkeyPatch, *, fails: bool = False) -> Iterator[int]:
    """Read the range from the broker; a task waits for three seconds."""
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "3000"}
    options["failOnDataLoss"] = str(fails).lower()
    patch.setattr(reading, "BlockingDriver", lambda *_, **__: broker)
    patch.setattr("tidelog.plugins.spark_sink.source.reading.time.monotonic", lambda: broker.now_s)
    for rows in reading.read_range(parse_options(options, streaming=False), WANTED):
        yield from rows.column("offset").to_pylist()


@pytest.mark.parametrize(
    ("polls", "log_start", "topic_errors", "offsets", "lost"),
    [
        # Without a record for more than three seconds, whether there was one before or not.
        ([Poll(seconds=1)] * 4, 0, {}, [], "5 to 8: its log ends at offset 8"),
        ([Poll(1), *[Poll(seconds=1)] * 4], 0, {}, [5], "6 to 8: its log ends at offset 8"),
        ([Poll(seconds=3), Poll(2, 4), Poll(seconds=3), Poll(2)], 0, {}, [5, 6, 7, 8], None),
        ([Poll(2), Poll(2, topic_id=OTHER_ID)], 0, {}, [5, 6], f"7 to 8: {AGAIN}"),
        ([Poll(2), Poll(2, topic_id=None)], 0, {}, [5, 6, 7, 8], None),
        ([Poll(error=OUT_OF_RANGE, topic_id=OTHER_ID)], 7, {}, [], f"5 to 8: {AGAIN}"),
        ([Poll(error=TIMED_OUT, topic_id=OTHER_ID)], 7, {}, [], f"5 to 8: {AGAIN}"),
        ([Poll(error=OUT_OF_RANGE), Poll(2)], 7, {}, [7, 8], "5 to 6: its log begins at offset 7"),
        ([Poll(error=OUT_OF_RANGE)], 50, {}, [], "5 to 8: its log begins at offset 50"),
        ([Poll(error=OUT_OF_RANGE)], 5, {}, [], "5 to 8: its log ends before them"),
        ([Poll(error=TIMED_OUT)], 0, UNKNOWN, [], "5 to 8: its topic was deleted"),
    ],
)
def test_what_is_lost_of_a_range_fails_the_task_or_is_named_and_left_out(
    polls: list[Poll],
    log_start: int,
    topic_errors: dict[str, ErrorCode],
    offsets: list[int],
    lost: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(polls, log_start, topic_errors)
    assert list(offsets_read(broker, monkeypatch)) == offsets
    assert broker.polls == []
    if lost is None:
        assert not caplog.messages
        return
    which, reason = lost.split(": ")
    message = f"offsets {which} of t-0 cannot be read: {reason}."
    (warning,) = caplog.messages
    assert warning.startswith(message)
    with pytest.raises(DataLost) as raised:
        list(offsets_read(Broker(polls, log_start, topic_errors), monkeypatch, fails=True))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("error", [TIMED_OUT, ErrorResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0")])
def test_an_error_of_a_topic_that_is_there_fails_the_task(
    error: ClientError, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(type(error)) as raised:
        list(offsets_read(Broker([Poll(error=error)], 0, {}), monkeypatch))
    assert raised.value is error
