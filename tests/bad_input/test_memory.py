"""What a few bytes can make a broker hold in memory."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from .raw import RawConnection
from .scene import Scene

if TYPE_CHECKING:
    from tests.peers import TidelogServer

ANNOUNCED_BYTES = 100 * 1024 * 1024
CONNECTIONS = 30
MAX_GROWTH_KB = 64 * 1024


def resident_kb(pid: int) -> int:
    """The resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


def test_an_announced_frame_takes_memory_only_as_it_arrives(tidelog: TidelogServer) -> None:
    scene = Scene(tidelog.bootstrap, "announced")
    before = resident_kb(tidelog.pid)
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connection = connections.enter_context(RawConnection(tidelog.bootstrap))
            connection.send(struct.pack(">i", ANNOUNCED_BYTES) + b"x" * 1000)
        scene.content()
        assert resident_kb(tidelog.pid) - before < MAX_GROWTH_KB
    scene.close()
