from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.plugins.protocol_http.http_client import BROKER, HttpClient
from tidelog.kernel import Broker
from tidelog.kernel.testing.broker import running_broker


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    async with running_broker(BROKER) as broker:
        yield broker


@pytest.fixture
def http(broker: Broker) -> HttpClient:
    return HttpClient(broker)
