"""How many connections may be created per second."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.kernel.network.line_protocol import address_quotas
from tidelog.kernel.network.connection_rates import (
    ADDRESSES_BEFORE_FORGETTING,
    CONNECTION_CREATION_RATE,
    AddressRates,
    ConnectionRate,
)
from tidelog.kernel.rates import SampleWindows

from .line_protocol import ask, is_closed, running_server

WINDOWS = SampleWindows(11, 1)
HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    autojump_clock.autojump_threshold = 0.005
    return autojump_clock


def quotas(**limits: float) -> dict[frozenset[tuple[str, str | None]], dict[str, float]]:
    """Quotas of addresses; `default` is that of all others."""
    return {
        frozenset({("ip", None if name == "default" else name)}): {CONNECTION_CREATION_RATE: limit}
        for name, limit in limits.items()
    }


@pytest.mark.parametrize(
    ("limit", "connections", "pauses"),
    [
        (1, [0.0] * 10, [0.0] * 10),
        (2, [0.0] * 22, [0.0] * 20 + [0.5, 1.0]),
        (1, [0.0] * 13, [0.0] * 10 + [1.0] * 3),
        (4, [0.0] * 41, [0.0] * 40 + [0.25]),
        (0, [0.0], [1.0]),
        # In the second sample there are still ten seconds that count, in the eleventh the rate is exact.
        (1, [0.0] * 5 + [1.5] * 6, [0.0] * 10 + [0.5]),
        (1, [0.0] * 10 + [10.5], [0.0] * 10 + [0.5]),
        # A sample is forgotten after eleven seconds.
        (1, [0.0] * 10 + [11.0], [0.0] * 11),
    ],
)
def test_pause_is_what_the_rate_of_eleven_samples_exceeds_its_limit_by(
    limit: int, connections: list[float], pauses: list[float]
) -> None:
    rate = ConnectionRate(WINDOWS)
    assert [rate.pause(now, limit) for now in connections] == pytest.approx(pauses)


def test_uncount_takes_a_connection_back() -> None:
    rate = ConnectionRate(WINDOWS)
    for _ in range(10):
        assert not rate.pause(0.0, 1)
    for _ in range(5):
        assert rate.pause(0.0, 1)
        rate.uncount(0.0)
    assert not rate.pause(1.0, 2)


def test_address_rates_use_the_quota_of_an_address_or_the_default() -> None:
    rates = AddressRates(WINDOWS)
    assert rates.use(quotas(**{HERE: 1.0})) == []
    assert [rates.pause(HERE, 0.0) > 0 for _ in range(12)] == [False] * 10 + [True] * 2
    assert not any(rates.pause(THERE, 0.0) for _ in range(100))
    rates.use(quotas(default=2.0))
    assert [rates.pause(THERE, 0.0) > 0 for _ in range(22)] == [False] * 20 + [True] * 2
    rates.use({})
    assert not any(rates.pause(HERE, 0.0) for _ in range(100))


def test_address_rates_know_addresses_however_they_are_written() -> None:
    rates = AddressRates(WINDOWS)
    assert rates.use(quotas(**{"2001:DB8:0:0:0:0:0:1": 0.0})) == []
    assert rates.pause("2001:db8::1", 0.0)


def test_address_rates_apply_the_quota_of_a_host_name_to_its_addresses() -> None:
    rates, limits = AddressRates(WINDOWS), quotas(host=0.0, **{THERE: 5.0})
    assert rates.use(limits) == ["host"]
    assert not rates.pause(HERE, 0.0)
    rates.use_hosts(limits, {"host": [HERE, THERE]})
    assert rates.pause(HERE, 0.0)
    assert not rates.pause(THERE, 0.0)


def test_address_rates_forget_addresses_that_no_longer_connect() -> None:
    rates = AddressRates(WINDOWS)
    rates.use(quotas(default=1.0))
    for index in range(ADDRESSES_BEFORE_FORGETTING):
        rates.pause(f"192.0.2.{index}", 0.0)
    rates.pause("198.51.100.1", 100.0)
    assert len(rates._rates) == 1  # pyright: ignore[reportPrivateUsage]


async def test_max_connection_creation_rate_makes_connections_above_it_wait(clock: MockClock) -> None:
    async with running_server(max_connection_creation_rate=1) as server:
        for number in range(12):
            before = trio.current_time()
            client = await server.connect()
            assert await ask(client, "echo hello") == "hello"
            waited = trio.current_time() - before >= 0.9
            assert waited == (number >= 10)


async def test_max_connection_creation_rate_ends_a_waiting_connection_with_the_server(
    clock: MockClock,
) -> None:
    async with running_server(max_connection_creation_rate=0) as server:
        client = await server.connect()
        await trio.sleep(0.5)
        server.end()
        assert await is_closed(client)
        assert server.protocol.connections == []


async def test_quota_of_an_address_holds_connections_and_closes_them(clock: MockClock) -> None:
    async with running_server() as server:
        first = await server.connect()
        assert await ask(first, "echo hello") == "hello"
        server.protocol.image = address_quotas({"127.0.0.1": 0})
        before = trio.current_time()
        assert await is_closed(await server.connect())
        assert trio.current_time() - before >= 0.9
        assert await ask(first, "echo still") == "still"
        server.protocol.image = address_quotas({})
        assert await ask(await server.connect(), "echo again") == "again"


async def test_max_connection_creation_rate_of_a_listener_holds_up_no_other_one(clock: MockClock) -> None:
    two = "PUBLIC://127.0.0.1:0,INTERNAL://127.0.0.1:0"
    limit = {"listener.name.public.max.connection.creation.rate": 1}
    async with running_server(**{"listeners": two, **limit}) as server:
        for listener, held in (("PUBLIC", True), ("INTERNAL", False)):
            before = trio.current_time()
            for _ in range(11):
                assert await ask(await server.connect(listener), "echo hello") == "hello"
            assert (trio.current_time() - before >= 0.9) == held
