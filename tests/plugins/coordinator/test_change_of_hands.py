"""Committed offsets stay when a directory changes hands between Apache Kafka and tidelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import KafkaServer, TidelogServer
from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on


@pytest.mark.long
def test_offsets_change_hands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    servers: tuple[KafkaServer | TidelogServer, ...] = (kafka, tidelog, kafka, tidelog)
    committed: dict[str, int] = {}
    try:
        for turn, server in enumerate(servers):
            server.start()
            client = Client(server.bootstrap)
            if turn == 0:
                client.create("orders", 1)
            assert {group: client.committed(group, "orders") for group in committed} == committed
            for group in (f"group-{turn}", "everybody", "another"):
                committed[group] = 10 * turn + len(group)
                client.commit(group, "orders", committed[group])
            if turn % 2:
                server.kill()
            else:
                server.stop()
    finally:
        kafka.stop()
        tidelog.stop()
