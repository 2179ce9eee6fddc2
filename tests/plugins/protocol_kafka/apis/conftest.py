"""A broker in memory for each test, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.broker import running_broker

from .client import Client


@pytest.fixture
def clock() -> FakeClock:
    """The broker's clock."""
    return FakeClock()


@pytest.fixture
async def broker(clock: FakeClock) -> AsyncGenerator[Broker]:
    """A running broker with its defaults."""
    async with running_broker(clock=clock) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Client:
    """A connection to it."""
    return Client(broker)
