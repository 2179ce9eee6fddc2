"""A broker that stood still expels no member of any group for heartbeats that it could not read."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.errors import UnknownMemberId
from tidelog.kernel.loop_monitor import LoopClock
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat
from tidelog.kernel.seams.coordination.groups import Assignment, GroupProtocol, JoinRequest, SyncRequest
from tidelog.kernel.testing.broker import new_broker

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker

T = TypeVar("T")

SESSION_S = 10
HEARTBEAT = ConsumerGroupHeartbeat(
    "consumer", "member", member_epoch=0, topic_names=frozenset(("t",)), rebalance_timeout_ms=5000, owned={}
)


async def answered(answer: T | Awaitable[T]) -> T:
    """Return an answer that may have to be waited for."""
    return await cast("Awaitable[T]", answer) if isinstance(answer, Awaitable) else answer


async def join_both(broker: Broker) -> tuple[str, int, int]:
    """Add a member of each protocol; return the classic one's id and generation, and the other's epoch."""
    await broker.coordinator.prepare_groups()
    await wait_all_tasks_blocked()
    groups = broker.coordinator.groups
    request = JoinRequest(
        "classic", "", "consumer", [GroupProtocol("range", b"")], SESSION_S * 1000, SESSION_S * 1000
    )
    joined = await answered(groups.join(request))
    assignments = [Assignment(joined.member_id, b"")]
    sync = SyncRequest("classic", joined.member_id, joined.generation, assignments=assignments)
    await answered(groups.sync(sync))
    answer = await answered(broker.coordinator.consumer_groups.heartbeat(HEARTBEAT))
    return joined.member_id, joined.generation, answer.member_epoch


@pytest.mark.parametrize("held", [True, False])
async def test_sessions_do_not_end_while_the_event_loop_is_held(held: bool, mock_clock: MockClock) -> None:
    broker = new_broker(
        {
            "group.initial.rebalance.delay.ms": 0,
            "group.consumer.session.timeout.ms": SESSION_S * 1000,
            "group.consumer.min.session.timeout.ms": SESSION_S * 1000,
            "group.consumer.heartbeat.interval.ms": 5000,
        }
    )
    if held:
        # To this clock each jump is one step of the event loop that took as long.
        broker.loop_monitor.clock = LoopClock(trio.current_time, trio.current_time)
    async with broker.running():
        member_id, generation, epoch = await join_both(broker)
        mock_clock.jump(6 * SESSION_S)
        await wait_all_tasks_blocked()
        classic, consumer = broker.coordinator.groups, broker.coordinator.consumer_groups
        again = HEARTBEAT._replace(member_epoch=epoch, topic_names=None, rebalance_timeout_ms=None)
        if held:
            classic.heartbeat("classic", member_id, generation, None)
            consumer.heartbeat(again)
        else:
            with pytest.raises(UnknownMemberId):
                classic.heartbeat("classic", member_id, generation, None)
            with pytest.raises(UnknownMemberId):
                await answered(consumer.heartbeat(again))
