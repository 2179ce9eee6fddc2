"""What a few bytes can make a broker hold in memory."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S, wait_until
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

from .groups_requests import coordinator_of
from .raw import RawConnection
from .raw_client import RawClient
from .requests import ask

if TYPE_CHECKING:
    from tests.peers import TidelogServer

ANNOUNCED_BYTES = 100 * 1024 * 1024
CONNECTIONS = 30
MAX_GROWTH_KB = 64 * 1024
VOLLEYS, NAMES_AT_ONCE = 25, 60
LONG = "n" * 30_000


def resident_kb(pid: int) -> int:
    """The resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


def test_an_announced_frame_takes_memory_only_as_it_arrives(tidelog: TidelogServer) -> None:
    client = RawClient(tidelog.bootstrap, "announced")
    before = resident_kb(tidelog.pid)
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connection = connections.enter_context(RawConnection(tidelog.bootstrap))
            connection.send(struct.pack(">i", ANNOUNCED_BYTES) + b"x" * 1000)
        client.content()
        assert resident_kb(tidelog.pid) - before < MAX_GROWTH_KB
    client.close()


def test_names_that_clients_ask_about_are_not_kept(tidelog: TidelogServer) -> None:
    with closing(RawClient(tidelog.bootstrap, "names")) as client:
        coordinator_of(client, "anybody")
        _ask_about_names(client, 0)
        before = resident_kb(tidelog.pid)
        for number in range(1, VOLLEYS):
            _ask_about_names(client, number)
        # All of the names together are much more.
        assert resident_kb(tidelog.pid) - before < VOLLEYS * NAMES_AT_ONCE * len(LONG) / 2 / 1024


def _ask_about_names(client: RawClient, number: int) -> None:
    names = [f"{number}-{index}-{LONG}" for index in range(NAMES_AT_ONCE)]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    client.ask_well(ask(apis.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups)))


FLOOD = 300
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def flood(tidelog: TidelogServer, sent: bytes) -> int:
    """Open connections that send so much, and close them; the resident memory before that, in kB."""
    host, _, port = tidelog.bootstrap.rpartition(":")
    descriptors = Path(f"/proc/{tidelog.pid}/fd")
    with ExitStack() as connections:
        for _ in range(FLOOD):
            sock = connections.enter_context(socket.create_connection((host, int(port)), DEADLINE_S))
            sock.sendall(sent)
        wait_until(lambda: len(list(descriptors.iterdir())) > FLOOD, "every connection is accepted")
        for _ in range(3):
            # When the last one is answered, what the others sent was received.
            with socket.create_connection((host, int(port)), DEADLINE_S) as last:
                last.sendall(API_VERSIONS)
                last.recv(1)
        return resident_kb(tidelog.pid)


def test_connections_that_send_a_length_take_little_memory_and_give_it_back(tidelog: TidelogServer) -> None:
    before = flood(tidelog, b"")
    assert flood(tidelog, struct.pack(">i", 900_000)) < before + FLOOD * 32
    wait_until(lambda: resident_kb(tidelog.pid) <= before * 1.2, "the memory is given back")
