"""The nodes that Apache Kafka writes in ZooKeeper mode for the same topics, field by field."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import OLD_PROTOCOLS_KAFKA, running_tidelog, running_zookeeper, running_zookeeper_kafka
from tests.plugins.zookeeper.observer import Found, all_nodes, observing, wait_until, wait_until_there

pytestmark = pytest.mark.long

COMMANDS = (
    ("create", "orders", "--partitions", "2"),
    ("create", "compacted", "--partitions", "1", "--config", "cleanup.policy=compact"),
    ("create", "deleted", "--partitions", "2"),
    ("alter", "orders", "--partitions", "3", "--config", "retention.ms=12345"),
    ("delete", "deleted"),
)
ANY = "?"
# Fields that name a machine, a time or a random id.
OWN = {"endpoints", "port", "timestamp", "topic_id", "id"}
NOT_COPIED = {"/feature", "/latest_producer_id_block"}
"""The features of brokers from 2.7 on, and the producer ids of those from 2.8 on: for brokers alone."""


def change_topics(bootstrap: str) -> None:
    for command, *arguments in COMMANDS:
        words = [sys.executable, "-m", "tidelog.kernel", "topics", command, "--bootstrap-server", bootstrap]
        subprocess.run([*words, *arguments], check=True, timeout=DEADLINE_S, capture_output=True)


def is_gone(observer: Any, path: str) -> bool:
    return observer.exists(path) is None


def comparable(nodes: dict[str, Found]) -> dict[str, tuple[Any, bool]]:
    return {
        path: (_fields(path, found.value), found.ephemeral)
        for path, found in nodes.items()
        if path not in NOT_COPIED
    }


def _fields(path: str, value: bytes | None) -> Any:
    if value is None or not value.startswith(b"{"):
        return value
    fields: dict[str, Any] = json.loads(value)
    # From 3.4 on, for the migration to KRaft; no client reads it.
    if path == "/controller" and fields.pop("kraftControllerEpoch", None) is not None:
        fields["version"] = 1
    # The order of fields counts, too.
    return [(name, ANY if name in OWN else field) for name, field in fields.items()]


@pytest.mark.parametrize("release", ["2.8.2", OLD_PROTOCOLS_KAFKA])
def test_registry_writes_what_kafka_writes(release: str, tmp_path: Path) -> None:
    folder = tmp_path / "tidelog"
    folder.mkdir()
    with running_zookeeper(tmp_path / "zookeeper") as server, observing(server.connect) as observer:
        settings = {"zookeeper.connect": f"{server.connect}/tidelog"}
        with (
            running_tidelog(folder, settings=settings) as tidelog,
            running_zookeeper_kafka(release, tmp_path / "kafka", f"{server.connect}/kafka") as kafka,
        ):
            for bootstrap in (tidelog.bootstrap, kafka.bootstrap):
                change_topics(bootstrap)
            for root in ("/tidelog", "/kafka"):
                wait_until_there(observer, f"{root}/brokers/topics/orders/partitions/2/state")
                wait_until(partial(is_gone, observer, f"{root}/brokers/topics/deleted"))
            theirs = all_nodes(observer, "/kafka")
            ours = all_nodes(observer, "/tidelog")
    assert comparable(ours) == comparable(theirs)
    assert (
        theirs["/brokers/topics/orders/partitions/2/state"]
        == ours["/brokers/topics/orders/partitions/2/state"]
    )
