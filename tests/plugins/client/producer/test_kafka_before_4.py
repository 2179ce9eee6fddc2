"""The producer over each driver against the last Apache Kafka that serves the first versions of all APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers import OLD_PROTOCOLS_KAFKA, running_kafka
from tests.plugins.client.producer.test_real_producers import log_of, new_topic, run
from tests.plugins.client.producer.three_drivers import Body

__all__ = ["run"]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def old_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), version=OLD_PROTOCOLS_KAFKA) as server:
        yield server.bootstrap


def test_records_and_a_transaction_are_in_the_log(run: Callable[[Body], None], old_kafka: str) -> None:
    topic = new_topic(old_kafka, 2)

    async def body(producer: Any) -> None:
        async with producer(old_kafka, compression_type="zstd", batch_size=1000) as sending:
            for number in range(500):
                await sending.send(topic, b"%d" % number, partition=number % 2)
        async with producer(old_kafka, transactional_id=topic) as sending:
            await sending.begin_transaction()
            await sending.send(topic, b"500", partition=0)
            await sending.commit_transaction()

    run(body)
    found = [int(record.value or b"") for record in log_of(old_kafka, topic, 0)]
    assert found == list(range(0, 501, 2))
