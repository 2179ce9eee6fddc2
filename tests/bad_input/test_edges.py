"""Values at the edges of their types: a request is answered, or its connection is closed with a reason."""

from __future__ import annotations

import itertools
import re
import select
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import running_tidelog
from tidelog.plugins.protocol_kafka.messages import api as apis

from .edges import Edge, edge_batches, edge_configs, edge_requests, edge_texts
from .raw import ClosedByBrokerError, RawConnection
from .raw_client import RawClient
from .requests import response_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.peers import TidelogServer

AT_ONCE = 200
QUIET_S = 0.3
WAITS = {apis.FETCH, apis.JOIN_GROUP, apis.SYNC_GROUP}
"""What a client may have to wait for as long as it said."""


@pytest.fixture
def edgy(tmp_path: Path) -> Iterator[TidelogServer]:
    """A broker of its own, since nothing else is to be found in its log."""
    settings = {"node.id": "1", "group.initial.rebalance.delay.ms": "0"}
    with running_tidelog(tmp_path, settings=settings) as server:
        yield server


@pytest.mark.parametrize(
    ("edges_of", "at_least"),
    [
        (edge_requests, 1000),
        (edge_batches, 30),
        (edge_configs, 200),
        pytest.param(edge_texts, 1000, marks=pytest.mark.long),
    ],
    ids=["requests", "batches", "configs", "texts"],
)
def test_every_value_at_its_edges(
    edgy: TidelogServer, edges_of: Callable[[RawClient], Iterator[Edge]], at_least: int
) -> None:
    count, closed, silent = 0, dict[str, str](), list[Edge]()
    with closing(RawClient(edgy.bootstrap, "edges")) as client:
        for wave in _waves(edges_of(client)):
            count += len(wave)
            closed |= _send(edgy, wave, silent)
        client.new_producer_id()
        client.end_offset()
    assert count >= at_least
    assert [edge.name for edge in silent if not _may_be_silent(edge)] == []
    logged = edgy.process.log_path.read_text()
    assert "Traceback" not in logged
    assert not re.search(r"^.* (ERROR|CRITICAL) .*$", logged, re.MULTILINE)
    for connection, name in closed.items():
        reason = rf" {re.escape(connection)} at PLAINTEXT: "
        assert re.search(reason, logged), f"{name} was closed without a reason"


def _may_be_silent(edge: Edge) -> bool:
    return edge.sent.api in WAITS or edge.name.endswith(" acks = 0")


def _waves(edges: Iterable[Edge]) -> Iterator[list[Edge]]:
    pending = iter(edges)
    while wave := list(itertools.islice(pending, AT_ONCE)):
        yield wave


def _send(server: TidelogServer, wave: list[Edge], silent: list[Edge]) -> dict[str, str]:
    """Send each over a connection of its own; the names of those that were closed, and what they sent."""
    closed: dict[str, str] = {}
    waiting: dict[int, tuple[Edge, RawConnection]] = {}
    for edge in wave:
        connection = RawConnection(server.bootstrap)
        connection.send(edge.sent.data)
        waiting[connection.fileno()] = edge, connection
    quiet_at = time.monotonic() + DEADLINE_S
    while waiting and time.monotonic() < quiet_at:
        ready, _, _ = select.select(list(waiting), [], [], QUIET_S)
        if not ready and all(_may_be_silent(edge) for edge, _ in waiting.values()):
            break
        for descriptor in ready:
            edge, connection = waiting.pop(descriptor)
            with connection:
                try:
                    response_of(edge.sent, connection.frame())
                except ClosedByBrokerError:
                    closed[connection.name] = edge.name
    for edge, connection in waiting.values():
        silent.append(edge)
        connection.__exit__(None, None, None)
    return closed
