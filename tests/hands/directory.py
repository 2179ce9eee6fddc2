"""One data directory and the two brokers that have it in turn, at the same address."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs

from tests.deadlines import DEADLINE_S
from tests.peers import KafkaServer, TidelogServer, find_kafka
from tests.peers.ports import LOOPBACK, free_port

from .secured import LISTENER, SETTINGS

Server: TypeAlias = KafkaServer | TidelogServer

COMMON = {
    "node.id": "1",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "10",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.retention.check.interval.ms": "600000",
    # Until then a kill brings records back that were deleted, with either broker.
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "200",
}
KAFKA = {
    # After a kill Kafka waits that long before the same broker may come back; on a busy machine, less than
    # this ends the session of one that lives.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
}
KAFKAS_LOGGERS = {"org.apache.kafka.storage.internals.log": "info"}
"""What reports compactions."""


@attrs.frozen
class Layout:
    """What a directory is like: how many there are, how Kafka finds its controller, who formats them."""

    log_dirs: int
    dynamic_quorum: bool
    tidelog_first: bool

    def __str__(self) -> str:
        setting = "bootstrap.servers" if self.dynamic_quorum else "voters"
        first = "tidelog" if self.tidelog_first else "Apache Kafka"
        return f"{self.log_dirs} log dir(s), controller.quorum.{setting}, formatted by {first}"


LAYOUTS = (
    Layout(1, dynamic_quorum=False, tidelog_first=True),
    Layout(2, dynamic_quorum=True, tidelog_first=False),
    Layout(2, dynamic_quorum=False, tidelog_first=False),
    Layout(1, dynamic_quorum=True, tidelog_first=True),
    Layout(2, dynamic_quorum=True, tidelog_first=True),
    Layout(1, dynamic_quorum=False, tidelog_first=False),
    Layout(1, dynamic_quorum=True, tidelog_first=False),
    Layout(2, dynamic_quorum=False, tidelog_first=True),
)
"""In an order in which the first four have every pair of properties."""


class HandedDirectory:
    """The data below `place`, and who has it."""

    def __init__(self, place: Path, layout: Layout) -> None:
        self.layout = layout
        self.log_dirs = [place / f"data-{number}" for number in range(layout.log_dirs)]
        for path in self.log_dirs:
            path.mkdir(parents=True)
        settings = {**COMMON, **SETTINGS, "log.dirs": ",".join(map(str, self.log_dirs))}
        self.kafka = KafkaServer(
            find_kafka(),
            place / "kafka",
            {**KAFKA, **settings},
            data_dir=self.log_dirs[0],
            dynamic_quorum=layout.dynamic_quorum,
            loggers=KAFKAS_LOGGERS,
        )
        self.bootstrap, self.secured = self.kafka.bootstrap, f"{LOOPBACK}:{free_port()}"
        plain, users = f"PLAINTEXT://{self.bootstrap}", f"{LISTENER}://{self.secured}"
        listeners = self.kafka.properties()["listeners"]
        self.kafka.settings = {
            **self.kafka.settings,
            "listeners": f"{listeners},{users}",
            "advertised.listeners": f"{plain},{users}",
        }
        self.tidelog = TidelogServer(
            place / "tidelog",
            {**settings, "listeners": f"{plain},{users}"},
            requested_port=self.kafka.port,
            data_dir=self.log_dirs[0],
        )

    def server(self, turn: int) -> Server:
        """Whose turn it is; turns count from 0."""
        return self.tidelog if (turn % 2 == 0) == self.layout.tidelog_first else self.kafka

    def start(self, turn: int) -> Server:
        """Start the broker whose turn it is.

        Raises:
            ServerFailedError: it does not start.
        """
        server = self.server(turn)
        server.start(DEADLINE_S)
        return server

    def close(self) -> None:
        """End whoever runs."""
        self.kafka.kill()
        self.tidelog.kill()

    def unloaded(self) -> list[str]:
        """Return what Apache Kafka has logged of group coordinators that it could not load.

        It does not try again. It happens on a machine that is so busy that the broker is fenced for a moment.
        """
        log = self.kafka.process.log_path
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else ()
        return [line for line in lines if "Failed to load metadata from" in line]

    def logs(self) -> list[Path]:
        """All log segments."""
        return sorted(path for root in self.log_dirs for path in root.glob("*-*/*.log"))
