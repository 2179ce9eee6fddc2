"""How many connections may be open."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.network.limits import ConnectionLimits, connections_within, limits_by_address

HERE, THERE = "192.0.2.1", "192.0.2.2"


def test_refusal_of_connections_beyond_max_per_ip_until_one_is_closed() -> None:
    limits = ConnectionLimits(100, 2, {})
    for _ in range(2):
        assert limits.refusal(HERE) is None
        limits.opened(HERE)
    refusal = limits.refusal(HERE)
    assert refusal is not None
    assert f"2 connections of {HERE} are open" in refusal
    assert limits.refusal(THERE) is None
    limits.closed(HERE)
    assert limits.refusal(HERE) is None


@pytest.mark.parametrize(("limit", "welcome"), [(0, False), (1, True)])
def test_refusal_uses_per_ip_overrides(limit: int, welcome: bool) -> None:
    limits = ConnectionLimits(100, 5, {HERE: limit})
    assert (limits.refusal(HERE) is None) == welcome
    assert limits.refusal(THERE) is None


def test_limits_by_address_resolves_host_names_and_normalizes_addresses() -> None:
    """However an address is written, and by whatever name."""
    limits = limits_by_address({"192.0.2.7": 1, "2001:DB8:0:0:0:0:0:1": 2, "localhost": 3})
    assert limits["192.0.2.7"] == 1
    assert limits["2001:db8::1"] == 2
    assert 3 in (limits.get("127.0.0.1"), limits.get("::1"))


def test_limits_by_address_refuses_an_unknown_host() -> None:
    with pytest.raises(
        ConfigError, match=r"max\.connections\.per\.ip\.overrides: host 'no-such-host\.invalid'"
    ):
        limits_by_address({"no-such-host.invalid": 1})


async def test_wait_for_room_returns_when_a_connection_is_closed() -> None:
    limits = ConnectionLimits(2, 100, {})
    for host in (HERE, THERE):
        await limits.wait_for_room()
        limits.opened(host)
    waited = trio.Event()

    async def wait() -> None:
        await limits.wait_for_room()
        waited.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not waited.is_set()
        limits.closed(THERE)
        await waited.wait()


async def test_wait_for_room_of_a_listener_that_has_its_own_limit() -> None:
    limits = ConnectionLimits(100, 100, {}, {"PUBLIC": 1})
    limits.opened(HERE, "PUBLIC")
    await limits.wait_for_room("INTERNAL")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.wait_for_room, "PUBLIC")
        await wait_all_tasks_blocked()
        assert nursery.child_tasks
        limits.closed(HERE, "PUBLIC")


async def test_wait_for_room_blocks_when_a_freed_slot_is_taken_again() -> None:
    limits = ConnectionLimits(1, 100, {})
    limits.opened(HERE)
    limits.closed(HERE)
    limits.opened(THERE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.wait_for_room)
        with trio.fail_after(DEADLINE_S):
            await wait_all_tasks_blocked()
        limits.closed(THERE)


async def test_wait_for_room_wakes_every_waiting_listener() -> None:
    limits = ConnectionLimits(1, 100, {})
    limits.opened(HERE)
    let_in: list[int] = []

    async def accept(listener: int) -> None:
        await limits.wait_for_room()
        let_in.append(listener)

    async with trio.open_nursery() as nursery:
        for listener in range(3):
            nursery.start_soon(accept, listener)
        await wait_all_tasks_blocked()
        assert let_in == []
        limits.closed(HERE)
        with trio.move_on_after(1):
            await wait_all_tasks_blocked()
        assert sorted(let_in) == [0, 1, 2]
        nursery.cancel_scope.cancel()


def test_closed_forgets_an_address_without_connections() -> None:
    limits = ConnectionLimits(10**6, 10**6, {})
    for index in range(1000):
        limits.opened(f"192.0.2.{index}")
        limits.closed(f"192.0.2.{index}")
    assert limits.refusal(HERE) is None
    assert not vars_of(limits)


def vars_of(limits: ConnectionLimits) -> object:
    """What is counted for each address."""
    return limits._per_ip  # pyright: ignore[reportPrivateUsage]


async def test_change_to_higher_limits_wakes_wait_for_room(nursery: trio.Nursery) -> None:
    limits = ConnectionLimits(1, 1, {})
    limits.opened(HERE)
    welcome: list[str] = []

    async def next_one() -> None:
        await limits.wait_for_room()
        welcome.append(THERE)

    nursery.start_soon(next_one)
    await wait_all_tasks_blocked()
    before = [*welcome, limits.refusal(HERE)]
    limits.change(2, 5, {"PUBLIC": 1})
    await wait_all_tasks_blocked()
    assert before != [None]
    assert welcome == [THERE]
    assert limits.refusal(HERE) is None


def test_connections_within_leaves_descriptors_for_files() -> None:
    limits = (1, 64, 96, 256, 1024, 1 << 20)
    assert [connections_within(limit) for limit in limits] == [1, 16, 32, 192, 768, 786_432]


async def test_wait_for_room_waits_while_the_other_descriptors_are_for_files(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = ConnectionLimits(100, 100, {}, max_by_descriptors=1)
    limits.opened(HERE)
    arrived: list[bool] = []

    async def arrive() -> None:
        await limits.wait_for_room()
        arrived.append(True)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(arrive)
        await wait_all_tasks_blocked()
        assert not arrived
        assert caplog.text.count("1 connections are open: further ones wait") == 1
        limits.closed(HERE)
    assert len(arrived) == 2
