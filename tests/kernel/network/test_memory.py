"""The memory of connections: what an idle one keeps, and when it is given back to the system."""

from __future__ import annotations

import gc
from types import FrameType

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.kernel.network.line_protocol import ask, running_server
from tidelog.kernel.network import memory
from tidelog.kernel.network.connection import Connection
from tidelog.kernel.network.memory import ENOUGH_BYTES, ENOUGH_CONNECTIONS, MemoryReturn


@pytest.mark.parametrize(
    ("connections", "bytes_of_each", "trimmed"),
    [
        (ENOUGH_CONNECTIONS, 0, 1),
        (ENOUGH_CONNECTIONS - 1, 0, 0),
        (4, ENOUGH_BYTES // 4, 1),
        (4, ENOUGH_BYTES // 4 - 1, 0),
    ],
)
async def test_memory_is_trimmed_once_after_many_connections_or_much_memory(
    monkeypatch: pytest.MonkeyPatch, connections: int, bytes_of_each: int, trimmed: int
) -> None:
    times: list[None] = []
    monkeypatch.setattr(memory, "return_freed_blocks", lambda: times.append(None))
    returned = MemoryReturn()
    for _ in range(connections):
        returned.connection_ended(bytes_of_each)
    await returned.trim_if_worthwhile()
    await returned.trim_if_worthwhile()
    assert len(times) == trimmed


async def test_an_idle_connection_keeps_neither_an_exception_nor_a_frame() -> None:
    async with running_server() as server:
        clients = [await server.connect() for _ in range(3)]
        for client in clients:
            assert await ask(client, "echo a") == "a"
        await wait_all_tasks_blocked()
        # An exception, its traceback and the frame that it shows take as much as a task of trio.
        kept = [each for each in gc.get_objects() if isinstance(each, BlockingIOError)]
        frames = [each for each in gc.get_objects() if isinstance(each, FrameType)]
        assert not kept
        assert not [each for each in frames if each.f_code is Connection.run.__code__]
