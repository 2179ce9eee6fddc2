"""When memory that connections had is given back to the system."""

from __future__ import annotations

import pytest

from tidelog.kernel.server import memory
from tidelog.kernel.server.memory import ENOUGH_BYTES, ENOUGH_CONNECTIONS, MemoryReturn


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
