"""Members of the consumer protocol are still there when a directory changes hands."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from tests.deadlines import DEADLINE_S, repeat_while_refused
from tests.peers import KafkaServer, TidelogServer
from tests.plugins.metadata_kraft.hands import QUIET, Client, kafka_on, tidelog_on

TOPIC: Final = "flights"
# The state of this group is in partition 0 of 2, by either broker's count.
GROUP: Final = "readers"


class Member(NamedTuple):
    """A member as tools see it."""

    member_id: str
    client_id: str
    partitions: frozenset[tuple[str, int]]


def members_on(bootstrap: str) -> list[Member]:
    """The members of the group."""
    admin = cast("Any", AdminClient({"bootstrap.servers": bootstrap, **QUIET}))
    described = repeat_while_refused(
        lambda: admin.describe_consumer_groups([GROUP])[GROUP].result(DEADLINE_S), KafkaException
    )
    return sorted(
        Member(
            member.member_id,
            member.client_id,
            frozenset((place.topic, place.partition) for place in member.assignment.topic_partitions),
        )
        for member in described.members
    )


def join(server: KafkaServer | TidelogServer, client_id: str) -> Consumer:
    """A client that has become a member; nobody polls for it afterwards, so it gives nothing up."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": GROUP, "group.protocol": "consumer"}
    consumer = Consumer({**settings, "client.id": client_id, **QUIET})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + DEADLINE_S
    while client_id not in {member.client_id for member in members_on(server.bootstrap)}:
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    return consumer


@pytest.mark.long
def test_members_are_there_whoever_has_the_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    everything = frozenset((TOPIC, number) for number in range(3))
    clients: list[Consumer] = []
    try:
        kafka.start()
        Client(kafka.bootstrap).create(TOPIC, 3)
        clients.append(join(kafka, "kafkas"))
        while not clients[0].assignment():
            clients[0].poll(0.1)
        before = members_on(kafka.bootstrap)
        assert [(member.client_id, member.partitions) for member in before] == [("kafkas", everything)]
        kafka.kill()

        tidelog.start()
        assert members_on(tidelog.bootstrap) == before
        assert "cannot be read" not in (tmp_path / "tidelog" / "tidelog.log").read_text()
        clients.append(join(tidelog, "tidelogs"))
        both = members_on(tidelog.bootstrap)
        assert {member.client_id for member in both} == {"kafkas", "tidelogs"}
        tidelog.kill()

        kafka.start()
        assert members_on(kafka.bootstrap) == both
    finally:
        kafka.stop()
        tidelog.stop()
        for client in clients:
            client.close()
