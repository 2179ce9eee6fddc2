"""Many partitions and many idle connections: what they cost tidelog."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.load.files import allow_files
from benchmarks.procfs import open_files, resident_bytes
from benchmarks.rows import Better, Row, Sample
from benchmarks.topics import admin_client, create_topics
from tests.peers import LOOPBACK, answers_api_versions

from .launch import timed_start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind, BrokerServer

    from .context import Bench

_TOPICS = 10
# Opened in steps that fit into a listen backlog of 50, Kafka's default (socket.listen.backlog.size).
_STEP = 32
_SPARE_FILES = 200

CREATED, READY = "partitions-created", "partitions-ready"
MEMORY, FILES = "partitions-memory", "partitions-files"
CONNECTED = "connections-opened"
CONNECTED_MEMORY, CONNECTED_FILES = "connections-memory", "connections-files"


@attrs.frozen
class Comfort:
    """Create partitions, stop, start again with them, then hold connections open."""

    partitions: int
    connections: int
    name: str = attrs.field(default="comfort", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        partitions = f"{self.partitions:,} partitions"
        connections = f"and {self.connections:,} idle connections"
        titles = (
            (CREATED, f"{partitions}: creation", "s"),
            (READY, f"{partitions}: process start to first answer", "s"),
            (MEMORY, f"{partitions}: resident memory", "MB"),
            (FILES, f"{partitions}: open files", "files"),
            (CONNECTED, f"{connections}: opening them", "s"),
            (CONNECTED_MEMORY, f"{connections}: resident memory", "MB"),
            (CONNECTED_FILES, f"{connections}: open files", "files"),
        )
        return [Row(name, title, unit, Better.LOWER) for name, title, unit in titles]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        server = kind.server(work_dir)
        try:
            server.start()
            created = _create(server, self.partitions)
            server.stop()
            return [created, *_restart(server), *_connect(server, self.connections)]
        finally:
            server.stop()


def _create(server: BrokerServer, partitions: int) -> Sample:
    per_topic = max(1, partitions // _TOPICS)
    start = time.monotonic()
    create_topics(admin_client(server.bootstrap), {f"many-{n}": per_topic for n in range(_TOPICS)})
    return Sample(CREATED, time.monotonic() - start, {"partitions": per_topic * _TOPICS})


def _restart(server: BrokerServer) -> list[Sample]:
    return [Sample(READY, timed_start(server)), *_cost(server, MEMORY, FILES)]


def _connect(server: BrokerServer, connections: int) -> list[Sample]:
    allow_files(connections + _SPARE_FILES)
    with ExitStack() as held:
        start = time.monotonic()
        for number in range(connections):
            held.enter_context(socket.create_connection((LOOPBACK, server.port), timeout=10))
            if number % _STEP == _STEP - 1:
                _check_answers(server)
        _check_answers(server)
        opened = Sample(CONNECTED, time.monotonic() - start, {"connections": connections})
        return [opened, *_cost(server, CONNECTED_MEMORY, CONNECTED_FILES)]


def _check_answers(server: BrokerServer) -> None:
    if not answers_api_versions(LOOPBACK, server.port):
        raise server.process.failed("does not answer beside many idle connections")


def _cost(server: BrokerServer, memory: str, files: str) -> list[Sample]:
    return [
        Sample(memory, resident_bytes(server.pid) / 1e6),
        Sample(files, open_files(server.pid)),
    ]
