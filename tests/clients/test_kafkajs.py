"""kafkajs, the client of Node programs. Its consumer wants a group, so kcat reads what it produced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .kcat import read_with_kcat
from .lines import lines_of
from .node_programs import run_node
from .payloads import Payload
from .records import Record

if TYPE_CHECKING:
    from .brokers import Broker

PACKAGE = "kafkajs@2.2.4"
PAYLOADS = [
    Payload(f"key {number}".encode() if number % 3 else None, f"value {number}".encode(), (), 1000 + number)
    for number in range(200)
]


def test_an_idempotent_producer_and_the_admin_client(broker: Broker, topic: str) -> None:
    printed = run_node("kafkajs.js", PACKAGE, [broker.bootstrap, topic], lines_of(PAYLOADS))
    assert printed.splitlines() == ["0 100", "0:0-200 1:0-0", "true"]
    assert read_with_kcat(broker.bootstrap, topic) == [
        Record(0, offset, payload.key, payload.value, payload.timestamp_ms)
        for offset, payload in enumerate(PAYLOADS)
    ]
