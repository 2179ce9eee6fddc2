"""A broker that is killed and comes back: operations go on, and idempotent records are there once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import trio

from tests.peers import TidelogServer, free_port
from tests.plugins.client.driven import QUICK
from tidelog.plugins.client import NewRecord, NewTopic, RetryPolicy, TopicPartition, or_raise

PATIENT = attrs.evolve(QUICK, retry=RetryPolicy(retries=200, max_backoff_s=0.1))
PARTITION = TopicPartition("orders", 0)
BATCHES = 60


async def test_produce_survives_a_broker_kill_and_restart_without_loss_or_duplicates(
    connect: Any, tmp_path: Path
) -> None:
    broker = TidelogServer(tmp_path, requested_port=free_port())
    await trio.to_thread.run_sync(broker.start)
    try:
        async with connect(broker.bootstrap, PATIENT) as client:
            or_raise(await client.call("create_topics", [NewTopic("orders")]))
            producer = await client.call("init_producer")
            async with trio.open_nursery() as nursery:
                for number in range(BATCHES):
                    if number == BATCHES // 3:
                        nursery.start_soon(trio.to_thread.run_sync, restart, broker)
                    await client.call("produce", PARTITION, [NewRecord(b"%d" % number)], producer=producer)
            seen = [record.value for record in await client.read(PARTITION, 0)]
    finally:
        await trio.to_thread.run_sync(broker.stop)
    assert seen == [b"%d" % number for number in range(BATCHES)]


def restart(broker: TidelogServer) -> None:
    broker.kill()
    broker.start()
