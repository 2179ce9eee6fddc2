"""Users that Apache Kafka's `kafka-storage format --add-scram` has put into a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import KafkaServer, find_kafka
from tidelog.client import Admin
from tidelog.kernel.testing.broker import broker_in_thread

MECHANISMS = {
    "SCRAM-SHA-256": "name=alice,password=moin",
    "SCRAM-SHA-512": "name=alice,iterations=8192,password=moin",
}


@pytest.mark.long
def test_users_that_kafka_formatted_log_in(tmp_path: Path) -> None:
    users = tuple(f"{mechanism}=[{user}]" for mechanism, user in MECHANISMS.items())
    formatted = KafkaServer(find_kafka(), tmp_path, scram=users)
    formatted.prepare()
    settings = {
        "storage": "file",
        "log.dirs": str(formatted.data_dir),
        "node.id": "1",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    with broker_in_thread(settings) as running:
        for mechanism in MECHANISMS:
            with Admin(
                running.bootstrap,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username="alice",
                sasl_plain_password="moin",
            ) as admin:
                assert admin.list_topics() == []
