"""FindCoordinator: an honest answer while nobody coordinates."""

from __future__ import annotations

import pytest

from tidelog.plugins.protocol_kafka.messages.api import FIND_COORDINATOR
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    GROUP_KEY,
    SHARE_KEY,
    TRANSACTION_KEY,
    FindCoordinatorRequest,
)

from .client import Client, versions_of

MANY_SINCE = 4


def request(version: int, *keys: str, key_type: int = GROUP_KEY) -> FindCoordinatorRequest:
    """Ask as that version does."""
    if version >= MANY_SINCE:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    return FindCoordinatorRequest(key=keys[0], key_type=key_type)


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR, last=MANY_SINCE - 1))
async def test_one_key(client: Client, version: int) -> None:
    response = await client.ask(FIND_COORDINATOR, version, request(version, "group"))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (response.node_id, response.host, response.port) == (-1, "", -1)
    assert bool(response.error_message) == (version >= 1)


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR, MANY_SINCE))
async def test_many_keys(client: Client, version: int) -> None:
    response = await client.ask(FIND_COORDINATOR, version, request(version, "one", "two"))
    assert [coordinator.key for coordinator in response.coordinators] == ["one", "two"]
    for coordinator in response.coordinators:
        assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (coordinator.node_id, coordinator.host, coordinator.port) == (-1, "", -1)
        assert coordinator.error_message


@pytest.mark.parametrize("version", versions_of(FIND_COORDINATOR, 1))
@pytest.mark.parametrize(
    ("key_type", "since"),
    [(GROUP_KEY, 0), (TRANSACTION_KEY, 1), (SHARE_KEY, 6), (3, 99), (-1, 99), (127, 99)],
)
async def test_types_of_keys(client: Client, version: int, key_type: int, since: int) -> None:
    response = await client.ask(FIND_COORDINATOR, version, request(version, "key", key_type=key_type))
    code = response.coordinators[0].error_code if version >= MANY_SINCE else response.error_code
    known = version >= since
    assert code == (ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST)


async def test_no_keys(client: Client) -> None:
    assert (await client.ask(FIND_COORDINATOR, 4, request(4))).coordinators == []
