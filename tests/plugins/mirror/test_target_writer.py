"""Appends may be acknowledged in any order; what a transaction notes of them is in that of offsets."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import trio

from tests.deadlines import DEADLINE_S
from tests.plugins.mirror.clusters import SETTINGS, content, produce, settings, some_records
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise
from tidelog.plugins.mirror.cluster_client import EngineClient
from tidelog.plugins.mirror.ledger import Ledger, ledger_topic
from tidelog.plugins.mirror.ledger_reading import LedgerReader
from tidelog.plugins.mirror.mirror import Mirror
from tidelog.plugins.mirror.transactional_writes import append_in_transaction

ONE_BATCH = 1


class LateFirstAppend:
    """A client that gives the result of its first append after that of the second one."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._appends = 0
        self._second_has_ended = trio.Event()

    async def run(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        is_append = operation is append_in_transaction
        self._appends += is_append
        number = self._appends
        result = await self._client.run(operation, *args, **kwargs)
        if is_append and number == 1:
            await self._second_has_ended.wait()
        elif is_append and number == 2:
            self._second_has_ended.set()
        return result


def test_appends_that_are_acknowledged_out_of_order_are_noted_in_order(clusters: tuple[str, str]) -> None:
    source, target = clusters
    topic = f"t{uuid.uuid4().hex}"
    with BlockingClient(source, settings=SETTINGS) as client:
        or_raise(client.create_topics([NewTopic(topic, 1)]))
        produce(client, topic, *(some_records(*(f"{each}.{n}" for n in range(10))) for each in range(2)))

    async def copy() -> None:
        # Both batches are in one transaction.
        mirror = settings(topic, source, topic, fetch_bytes=ONE_BATCH, commit_interval_s=DEADLINE_S)
        with ExitStack() as stack, trio.fail_after(DEADLINE_S):
            clients = (stack.enter_context(EngineClient(each, SETTINGS)) for each in (source, source, target))
            first, admin, other = clients
            await Mirror(mirror, first, admin, LateFirstAppend(other)).run_until_end()

    trio.run(copy)
    assert len(content(target, topic)) == 20
    partition = TopicPartition(topic, 0)
    ledger = ledger_of(target, topic)
    assert ledger.positions[partition] == 20
    assert [ledger.maps[partition].translate(offset) for offset in range(21)] == list(range(21))


def ledger_of(target: str, mirror: str) -> Ledger:
    with BlockingClient(target, settings=SETTINGS) as client:
        return client.run(LedgerReader(TopicPartition(ledger_topic(mirror), 0)).read)
