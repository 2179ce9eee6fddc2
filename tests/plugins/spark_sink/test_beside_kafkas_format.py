"""The same queries with Spark's own format `kafka` on tidelog and `tidelog` on Apache Kafka: equal rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import find_kafka_format
from tests.plugins.spark_sink.queries import Topic, new_topic
from tidelog.plugins.client import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.long

T0 = 1_700_000_000_000
RECORDS = 120
BATCH = 25
# Offsets of queries: `TOPIC` stands for the topic's name.
OFFSETS = {"TOPIC": {"0": 17, "1": -2}}, {"TOPIC": {"0": -1, "1": 60}}
TIMES = {"TOPIC": {"0": T0 + 30, "1": T0 + 70}}, {"TOPIC": {"0": T0 + 80, "1": T0 + 10**9}}
QUERIES: dict[str, dict[str, str]] = {
    "all": {},
    "headers of committed records by a pattern": {
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "subscribePattern": "TOPI[C]",
    },
    "tasks": {"assign": json.dumps({"TOPIC": [1]}), "minPartitions": "5"},
    "offsets": {"startingOffsets": json.dumps(OFFSETS[0]), "endingOffsets": json.dumps(OFFSETS[1])},
    "timestamps": {"startingTimestamp": str(T0 + 40), "endingTimestamp": str(T0 + 90)},
    "timestamps of partitions": {
        "startingOffsetsByTimestamp": json.dumps(TIMES[0]),
        "endingOffsetsByTimestamp": json.dumps(TIMES[1]),
    },
    "timestamps after the end": {
        "startingTimestamp": str(T0 + 10**9),
        "startingOffsetsByTimestampStrategy": "latest",
    },
}


@attrs.frozen
class Side:
    """A format, and a topic on a broker that is not its own."""

    format: str
    topic: Topic

    def load(self, reader: Any, options: dict[str, str]) -> DataFrame:
        """The table of a query."""
        given = {"kafka.bootstrap.servers": self.topic.bootstrap, **options}
        if not given.keys() & {"subscribePattern", "assign"}:
            given["subscribe"] = self.topic.name
        named = {key: text.replace("TOPIC", self.topic.name) for key, text in given.items()}
        named = {key: text.replace("TOPI[C]", f"{self.topic.name[:-1]}.") for key, text in named.items()}
        table: DataFrame = reader.format(self.format).options(**named).load()
        return table


@pytest.fixture(scope="module", autouse=True)
def _kafka_format() -> None:
    """The session has the jars of Spark's own format if they can be had."""
    find_kafka_format()


@pytest.fixture(scope="module")
def sides(shared_tidelog: str, shared_kafka: str) -> Iterator[list[Side]]:
    """Both formats, with the same records in topics of the same name."""
    name = f"beside-{uuid.uuid4()}"
    with ExitStack() as stack:
        brokers = {"kafka": shared_tidelog, "tidelog": shared_kafka}
        both = [
            Side(format_name, stack.enter_context(new_topic(bootstrap, 2, name)))
            for format_name, bootstrap in brokers.items()
        ]
        for side in both:
            fill(side.topic)
        yield both


def fill(topic: Topic) -> None:
    """Records of all kinds, and transactions of which only the second is committed."""
    for partition in range(2):
        records = [record(partition, index) for index in range(RECORDS)]
        for start in range(0, RECORDS, BATCH):
            topic.client.produce(topic.partition(partition), records[start : start + BATCH])
    producer = topic.client.init_transactions(topic.name)
    for end in (
        topic.client.abort_transaction,
        topic.client.commit_transaction,
        topic.client.abort_transaction,
    ):
        producer.begin_transaction()
        for partition in range(2):
            values = [NewRecord(f"{end.__name__} {index}".encode(), timestamp=T0 + 200) for index in range(5)]
            topic.client.produce(topic.partition(partition), values, producer=producer)
        end(producer)


def record(partition: int, index: int) -> NewRecord:
    """With a null as key, value, or value of a header now and then."""
    return NewRecord(
        None if index % 7 == 0 else f"value {partition} {index}".encode(),
        None if index % 5 == 0 else f"key {index}".encode(),
        [("h", str(index).encode()), ("h", None)][: index % 3],
        T0 + index,
    )


def sorted_rows(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows in order of partitions and offsets."""
    return [row.asDict(recursive=True) for row in sorted(rows, key=lambda row: (row.partition, row.offset))]


@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_query_has_equal_rows(spark: SparkSession, sides: list[Side], query: str) -> None:
    of_kafka, of_tidelog = [side.load(spark.read, QUERIES[query]) for side in sides]
    assert of_tidelog.dtypes == of_kafka.dtypes
    rows = sorted_rows(of_tidelog.collect())
    assert rows == sorted_rows(of_kafka.collect())
    assert rows


def test_a_streaming_query_has_equal_micro_batches(
    spark: SparkSession, sides: list[Side], tmp_path: Path
) -> None:
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
        "kafka.isolation.level": "read_committed",
    }
    found: dict[str, list[list[dict[str, Any]]]] = {side.format: [] for side in sides}
    for side in sides:

        def collect(rows: DataFrame, _: int, batches: list[Any] = found[side.format]) -> None:
            batches.append(sorted_rows(rows.collect()))

        stream = side.load(spark.readStream, options).writeStream.foreachBatch(collect)
        stream = stream.option("checkpointLocation", str(tmp_path / side.format))
        assert stream.trigger(availableNow=True).start().awaitTermination(int(DEADLINE_S))
    assert found["tidelog"] == found["kafka"]
    assert len(found["tidelog"]) == 2


def test_rows_are_written_as_equal_records(
    spark: SparkSession, shared_tidelog: str, shared_kafka: str
) -> None:
    frame = spark.range(300).selectExpr(
        "cast(concat('key ', id) AS binary) AS key",
        "if(id % 7 = 0, null, cast(concat('value ', id) AS binary)) AS value",
        "if(id % 3 = 0, null, array(named_struct('key', 'h', 'value', binary(string(id))))) AS headers",
        "if(id % 4 = 0, cast(id % 8 / 4 AS int), null) AS partition",
    )
    written: list[list[dict[str, Any]]] = []
    for format_name, bootstrap in (("kafka", shared_tidelog), ("tidelog", shared_kafka)):
        with new_topic(bootstrap, 3) as topic:
            options = {"kafka.bootstrap.servers": bootstrap, "topic": topic.name}
            frame.coalesce(1).write.format(format_name).options(**options).mode("append").save()
            rows = Side(format_name, topic).load(spark.read, {"includeHeaders": "true"})
            written.append(sorted_rows(rows.drop("topic", "timestamp").collect()))
    assert written[0] == written[1]
    assert len(written[0]) == 300
