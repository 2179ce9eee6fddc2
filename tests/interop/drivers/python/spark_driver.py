"""Scenarios with Spark's own format `kafka`. Arguments: bootstrap servers, folder with its jars."""

from __future__ import annotations

import json
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tests.interop.drivers.python.driving import (
    COUNT,
    HEADERS,
    MEGABYTE,
    Answer,
    drive,
    key,
    row,
    text,
    timestamp_ms,
    value,
)
from tidelog.plugins.spark_sink.environment import prepare_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = "key binary, value binary, partition int"
_WITH_HEADERS = f"{_SCHEMA}, headers array<struct<key: string, value: binary>>"


class SparkKafka:
    """Each public method is an action."""

    def __init__(self, bootstrap: str, jars: str) -> None:
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._jars = ",".join(map(str, sorted(Path(jars).glob("*.jar"))))

    @cached_property
    def _spark(self) -> SparkSession:
        prepare_spark()
        settings = {
            "spark.jars": self._jars,
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
        builder = SparkSession.builder.master("local[1]").appName("interop")
        for name, setting in settings.items():
            builder = builder.config(name, setting)
        return builder.getOrCreate()

    def produce(self, topic: str, codec: str) -> Answer:
        return self._send_all(topic, {"kafka.compression.type": codec})

    def acks(self, topic: str, acks: str) -> Answer:
        return self._send_all(topic, {"kafka.acks": acks, "kafka.enable.idempotence": "false"})

    def idempotent(self, topic: str, _: str) -> Answer:
        return self._send_all(topic, {"kafka.enable.idempotence": "true"})

    def headers(self, topic: str, _: str) -> Answer:
        rows = [(b"key", b"value", 0, HEADERS)]
        return self._send(topic, rows, {"includeHeaders": "true"}, _WITH_HEADERS)

    def null_key(self, topic: str, _: str) -> Answer:
        return self._send(topic, [(None, b"value", 0)])

    def null_value(self, topic: str, _: str) -> Answer:
        return self._send(topic, [(b"key", None, 0)])

    def megabyte(self, topic: str, _: str) -> Answer:
        return self._send(topic, [(b"key", b"m" * MEGABYTE, 0)])

    def too_large(self, topic: str, _: str) -> Answer:
        return self._send(topic, [(b"key", b"m" * 5000, 0)])

    def auto_create(self, topic: str, _: str) -> Answer:
        return self._send(topic, [(b"key", b"value", 0)])

    def read(self, topic: str, _: str) -> Answer:
        return {"records": [row(each.offset, each.key, each.value) for each in self._load(topic)]}

    def read_nulls(self, topic: str, _: str) -> Answer:
        return self.read(topic, "")

    def read_timestamps(self, topic: str, _: str) -> Answer:
        stamped = self._frame(topic).selectExpr("unix_millis(timestamp) AS ms", "offset").orderBy("offset")
        return {"timestamps": [each.ms for each in stamped.collect()]}

    def read_headers(self, topic: str, _: str) -> Answer:
        (read,) = self._load(topic, {"includeHeaders": "true"})
        return {"headers": [[each.key, text(each.value)] for each in read.headers]}

    def read_megabyte(self, topic: str, _: str) -> Answer:
        return {"sizes": [len(each.value) for each in self._load(topic)]}

    def seek_offset(self, topic: str, _: str) -> Answer:
        start = json.dumps({topic: {"0": 7}})
        return {"offsets": [each.offset for each in self._load(topic, {"startingOffsets": start})]}

    def seek_time(self, topic: str, _: str) -> Answer:
        start = {"startingTimestamp": str(timestamp_ms(4) + 1)}
        return {"offset": self._load(topic, start)[0].offset}

    def read_committed(self, topic: str, _: str) -> Answer:
        read = self._load(topic, {"kafka.isolation.level": "read_committed"})
        return {"keys": [text(each.key) for each in read]}

    def _frame(self, topic: str, options: dict[str, str] | None = None) -> Any:
        given = {**self._servers, "subscribe": topic, **(options or {})}
        return self._spark.read.format("kafka").options(**given).load()

    def _load(self, topic: str, options: dict[str, str] | None = None) -> list[Any]:
        return list(self._frame(topic, options).orderBy("offset").collect())

    def _send_all(self, topic: str, options: dict[str, str]) -> Answer:
        return self._send(topic, [(key(n), value(n), 0) for n in range(COUNT)], options)

    def _send(
        self,
        topic: str,
        rows: Sequence[tuple[Any, ...]],
        options: dict[str, str] | None = None,
        schema: str = _SCHEMA,
    ) -> Answer:
        frame = self._spark.createDataFrame(rows, schema).coalesce(1)
        given = {**self._servers, "topic": topic, **(options or {})}
        frame.write.format("kafka").options(**given).save()
        return {}


if __name__ == "__main__":
    drive(SparkKafka(sys.argv[1], sys.argv[2]))
