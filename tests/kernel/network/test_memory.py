"""The memory of connections: what an idle one keeps, and when it is given back to the system."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
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
    monkeypatch.setattr(memory, "_trim", lambda: times.append(None))
    returned = MemoryReturn()
    for _ in range(connections):
        returned.connection_ended(bytes_of_each)
    await returned.trim_if_worthwhile()
    await returned.trim_if_worthwhile()
    assert len(times) == trimmed


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other limits")
@pytest.mark.parametrize("size", [128 * 1024, 256 * 1024, 1024 * 1024])
def test_freed_pieces_are_used_again_without_new_pages(size: int) -> None:
    """In a process of its own: what was freed before counts, too."""
    program = f"""
from resource import RUSAGE_SELF, getrusage
from tidelog.kernel.network.memory import keep_freed_blocks
keep_freed_blocks()
bytes(bytearray({size}))
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytes(bytearray({size}))
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(run.stdout) < size // 4096, "as many as one piece has"


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
