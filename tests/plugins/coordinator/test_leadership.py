"""Groups, offsets and transactions where leadership of the internal topics' partitions comes and goes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from typing import Any, Final, TypeVar, cast

import pytest
import trio
import trio.testing

from tests.metadata_changes import lead_partitions
from tests.plugins.coordinator.test_reading_back import HISTORIES, INTERNAL, TOPIC, play
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import BrokerError, CoordinatorLoadInProgress, NotCoordinator
from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, JoinRequest, SyncRequest
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity, TransactionFilter
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.runtime.topic_log import TRANSACTION_TOPIC

SETTINGS: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
MINUTE_MS: Final = 60_000
T = TypeVar("T")


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A running broker."""
    async with running_broker(SETTINGS) as broker:
        await broker.topics.ensure(TOPIC)
        yield broker


async def change_leadership(broker: Broker, topic: str, *, leads: bool) -> None:
    names = (each.topic_partition for each in broker.topics.get(topic).partitions)
    await lead_partitions(broker, *names, leader_id=broker.cluster.node_id + (not leads))


async def loaded(broker: Broker, of: str) -> None:
    while not broker.coordinator.loading[of].done:  # noqa: ASYNC110 nobody is told, it is a figure
        await trio.sleep(0.001)


async def seen_by_clients(broker: Broker) -> dict[str, Any]:
    """All groups as tools list them, and what each has committed."""
    coordinator = broker.coordinator
    listed = {each.group_id: each for each in coordinator.groups.list()}
    return {
        name: (listed.get(name), coordinator.offsets.fetch(OffsetFetch(name, None))) for name in HISTORIES
    }


async def test_groups_and_offsets_are_as_after_a_start_when_leadership_returns(broker: Broker) -> None:
    await broker.coordinator.prepare_groups()
    for number, (group, steps) in enumerate(HISTORIES.items()):
        play(broker, group, number, steps)
    await change_leadership(broker, INTERNAL, leads=False)
    assert list(broker.coordinator.groups.list()) == []
    await change_leadership(broker, INTERNAL, leads=True)
    with pytest.raises(CoordinatorLoadInProgress):
        broker.coordinator.offsets.fetch(OffsetFetch("plain", None))
    await loaded(broker, "groups")
    first = await seen_by_clients(broker)
    committed: dict[str, int] = {
        name: offsets[TOPIC][0].offset for name, (_, offsets) in first.items() if offsets
    }
    assert (committed["plain"], committed["later-plain-wins"]) == (2, 7)
    assert "removed" not in committed
    for _ in range(3):
        await change_leadership(broker, INTERNAL, leads=False)
        await change_leadership(broker, INTERNAL, leads=True)
        await loaded(broker, "groups")
        assert await seen_by_clients(broker) == first


async def at_last(answer: T | Awaitable[T]) -> T:
    """An answer that is there, or comes later."""
    return cast("T", await answer if isinstance(answer, Awaitable) else answer)


def join(broker: Broker, member_id: str = "") -> Joined | Awaitable[Joined]:
    protocols = [GroupProtocol("range", b"")]
    request = JoinRequest("team", member_id, "consumer", protocols, MINUTE_MS, MINUTE_MS)
    return broker.coordinator.groups.join(request)


async def test_requests_of_a_group_are_refused_while_another_broker_leads_and_it_goes_on_afterwards(
    broker: Broker,
) -> None:
    coordinator = broker.coordinator
    await coordinator.prepare_groups()
    member = await at_last(join(broker))
    await at_last(coordinator.groups.sync(SyncRequest("team", member.member_id, member.generation)))
    commit = OffsetCommit("team", [OffsetToCommit(TOPIC, 0, 5)], member.generation, member.member_id)
    assert not any(coordinator.offsets.commit(commit).errors)
    await change_leadership(broker, INTERNAL, leads=False)
    for ask in (
        lambda: coordinator.groups.heartbeat("team", member.member_id, member.generation),
        lambda: coordinator.offsets.commit(commit),
        lambda: coordinator.offsets.fetch(OffsetFetch("team", None)),
        lambda: coordinator.groups.describe("team"),
        lambda: join(broker),
    ):
        with pytest.raises(NotCoordinator):
            ask()
    await change_leadership(broker, INTERNAL, leads=True)
    await loaded(broker, "groups")
    coordinator.groups.heartbeat("team", member.member_id, member.generation)
    fetched = coordinator.offsets.fetch(OffsetFetch("team", None))
    committed = fetched[TOPIC][0]
    assert isinstance(committed, CommittedOffset)
    assert committed.offset == 5


async def test_join_that_waits_for_other_members_is_answered_when_leadership_goes(broker: Broker) -> None:
    coordinator = broker.coordinator
    await coordinator.prepare_groups()
    await at_last(join(broker))
    errors: list[BrokerError] = []

    async def wait() -> None:
        try:
            await at_last(join(broker))
        except BrokerError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not errors
        await change_leadership(broker, INTERNAL, leads=False)
    assert [type(error) for error in errors] == [NotCoordinator]


async def test_transactions_are_refused_while_another_broker_leads_and_go_on_afterwards(
    broker: Broker,
) -> None:
    transactions, place = broker.coordinator.transactions, TopicPartition(TOPIC, 0)
    await broker.coordinator.prepare_transactions()
    producer = await transactions.init_producer_id("orders", MINUTE_MS)
    await transactions.add_partitions("orders", producer, [place])
    before = transactions.describe("orders")
    await change_leadership(broker, TRANSACTION_TOPIC, leads=False)
    for ask in (
        lambda: transactions.describe("orders"),
        lambda: transactions.verify_partitions("orders", producer, [place]),
    ):
        with pytest.raises(NotCoordinator):
            ask()
    for request in (
        transactions.end("orders", producer, commit=True),
        transactions.init_producer_id("orders", MINUTE_MS),
    ):
        with pytest.raises(NotCoordinator):
            await request
    assert not transactions.includes_partition(*producer, place)
    assert list(await transactions.list(TransactionFilter())) == []
    await change_leadership(broker, TRANSACTION_TOPIC, leads=True)
    await loaded(broker, "transactions")
    assert transactions.describe("orders") == before
    assert transactions.includes_partition(*producer, place)
    assert isinstance(await transactions.end("orders", producer, commit=True), ProducerIdentity)
