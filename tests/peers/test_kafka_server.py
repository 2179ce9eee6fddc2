from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.peers import (
    KafkaDistribution,
    KafkaServer,
    ServerFailedError,
    answers_api_versions,
    find_kafka,
    peers_cache,
    running_kafka,
)
from tests.peers.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = "org.apache.kafka.tools.TopicCommand"


def test_settings_replace_and_join_what_a_single_node_needs(tmp_path: Path) -> None:
    nothing = KafkaDistribution("9.9", tmp_path, "java")
    server = KafkaServer(nothing, tmp_path, {"node.id": "7", "log.roll.ms": "5"}, data_dir=tmp_path / "d")
    properties = server.properties()
    assert properties["node.id"] == "7"
    assert properties["log.roll.ms"] == "5"
    assert properties["log.dirs"] == str(tmp_path / "d")
    assert properties["listeners"].startswith(f"PLAINTEXT://{server.bootstrap},CONTROLLER://")


def test_data_lives_in_the_work_dir_unless_told_otherwise(tmp_path: Path) -> None:
    assert KafkaServer(KafkaDistribution("9.9", tmp_path, "java"), tmp_path).data_dir == tmp_path / "data"


def test_a_broken_jvm_is_told_with_what_it_printed(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho no such class >&2\nexit 1\n")
    java.chmod(0o755)
    server = KafkaServer(KafkaDistribution("9.9", tmp_path, str(java)), tmp_path)
    with pytest.raises(ServerFailedError, match=r"could not format .*: no such class"):
        server.start()


def test_the_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERS_CACHE", str(tmp_path))
    assert peers_cache() == tmp_path
    monkeypatch.delenv("PEERS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert peers_cache() == tmp_path / "tidelog" / "peers"


@pytest.mark.long
def test_apache_kafka_serves_is_killed_and_serves_again(tmp_path: Path) -> None:
    find_kafka()
    with running_kafka(tmp_path) as kafka:
        tool = kafka.distribution.run_tool
        address = ["--bootstrap-server", kafka.bootstrap]
        created = tool(TOPICS, [*address, "--create", "--topic", "kept", "--partitions", "3"])
        assert created.returncode == 0, created.stderr
        kafka.kill()
        assert not answers_api_versions(LOOPBACK, kafka.port)
        kafka.start()
        assert tool(TOPICS, [*address, "--list"]).stdout.split() == ["kept"]
    assert not kafka.process.is_running
