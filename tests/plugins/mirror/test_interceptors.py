"""Interceptors of a target see what a mirror writes, as what any other producer writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins.mirror.clusters import SETTINGS, content, copied, produce, settings
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, or_raise
from tidelog.plugins.mirror.errors import MirrorRefused


def test_what_an_interceptor_refuses_stops_its_partition_alone(tmp_path: Path) -> None:
    schema = tmp_path / "order.schema.json"
    schema.write_text(json.dumps({"type": "object", "required": ["id"]}))
    intercepted = {
        "interceptors.orders.type": "schema_validation",
        "interceptors.orders.topics.regex": "orders",
        "interceptors.orders.schema_validation.file": str(schema),
    }
    with broker_in_thread() as source, broker_in_thread(intercepted) as target:
        with BlockingClient(source.bootstrap, settings=SETTINGS) as client:
            or_raise(client.create_topics([NewTopic("orders", 2), NewTopic("others", 1)]))
            produce(client, "orders", [NewRecord(b'{"id": 1}')])
            produce(client, "orders", [NewRecord(b'{"id": 2}')], [NewRecord(b"{}")], partition=1)
            produce(client, "others", [NewRecord(b"{}")])
        with pytest.raises(MirrorRefused, match=r"orders-1: .*INVALID_RECORD .*'id' is a required property"):
            copied(settings("checked", source.bootstrap, ".*"), target.bootstrap)
        found = {
            (topic, partition): [each[2] for each in content(target.bootstrap, topic, partition)]
            for topic, partition in (("orders", 0), ("orders", 1), ("others", 0))
        }
    assert found == {("orders", 0): [b'{"id": 1}'], ("orders", 1): [], ("others", 0): [b"{}"]}
