"""Base classes that wrap a storage: every member of the protocols goes to what is wrapped, unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any
from unittest.mock import AsyncMock, Mock, PropertyMock, create_autospec, sentinel
from uuid import uuid4

import pytest

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.storage import (
    ForwardingStorage,
    ForwardingStore,
    PartitionSpec,
    PartitionStore,
    Storage,
    TopicPartition,
)

NAMES = [TopicPartition("t", 0), TopicPartition("t", 1)]
WRAPPING = {"open_partitions", "delete_partitions", "close_partitions"}
"""What a storage that wraps another does more about than to forward it."""


def members_of(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def test_forwarding_storage_and_forwarding_store_have_all_members_of_the_protocols() -> None:
    assert set(members_of(PartitionStore)) <= set(members_of(ForwardingStore))
    assert set(members_of(Storage)) <= set(members_of(ForwardingStorage))


@pytest.mark.parametrize(
    ("protocol", "base", "name"),
    [
        *((PartitionStore, ForwardingStore, name) for name in members_of(PartitionStore)),
        *((Storage, ForwardingStorage, name) for name in members_of(Storage) if name not in WRAPPING),
    ],
)
async def test_forwarding_storage_and_forwarding_store_forward_each_member(
    protocol: type, base: Any, name: str
) -> None:
    wrapped = create_autospec(protocol, instance=True)
    member = vars(protocol)[name]
    if isinstance(member, property):
        setattr(type(wrapped), name, PropertyMock(return_value=sentinel.value))
        assert getattr(base(wrapped), name) is sentinel.value
        return
    arguments: list[object] = []
    named: dict[str, object] = {}
    for parameter in list(inspect.signature(member).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = getattr(sentinel, parameter.name)
        else:
            arguments.append(getattr(sentinel, parameter.name))
    getattr(wrapped, name).return_value = sentinel.value
    result = getattr(base(wrapped), name)(*arguments, **named)
    if isinstance(result, Awaitable):
        result = await result
    assert result is sentinel.value
    getattr(wrapped, name).assert_called_once_with(*arguments, **named)


class Wrapping(ForwardingStorage):
    """Wraps each store in one of its own."""

    def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
        """Forward everything."""
        return ForwardingStore(store)


async def test_forwarding_storage_hands_out_wrapped_stores_and_takes_them_back_as_they_were() -> None:
    stores = [Mock(), Mock()]
    inner = AsyncMock()
    inner.open_partitions.return_value = stores
    storage = Wrapping(inner)
    specs = [PartitionSpec(name, uuid4(), TopicConfig()) for name in NAMES]
    opened = await storage.open_partitions(specs, sentinel.progress)
    inner.open_partitions.assert_awaited_once_with(specs, sentinel.progress)
    assert [each.wrapped for each in opened if isinstance(each, ForwardingStore)] == stores
    await storage.delete_partitions([(NAMES[1], opened[1])])
    inner.delete_partitions.assert_awaited_once_with([(NAMES[1], stores[1])])
    jobs = [(NAMES[0], Mock())]
    await storage.close_partitions(jobs)
    inner.close_partitions.assert_awaited_once_with(jobs)


async def test_forwarding_storage_hands_out_the_stores_themselves_by_default() -> None:
    stores = [Mock()]
    storage = ForwardingStorage(Mock(open_partitions=AsyncMock(return_value=stores)))
    assert await storage.open_partitions([PartitionSpec(NAMES[0], uuid4(), TopicConfig())]) == stores
