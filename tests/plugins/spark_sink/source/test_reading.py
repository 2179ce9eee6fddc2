"""Ranges read from a broker that restarts, whose topic is deleted, or that is gone."""

from __future__ import annotations

from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import LOOPBACK, free_port, running_tidelog
from tests.plugins.spark_sink.queries import Query, new_topic, values
from tidelog.plugins.client.errors import BrokerUnreachable
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.source.errors import DataLost

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
