"""Each client over each mechanism and TLS: it produces, and reads as a member of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .access import VALUES, Access, secured_broker
from .round_trips import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

# kcat has no way to hand over a token, and Debian's has a librdkafka whose SCRAM Apache Kafka 4 refuses, too;
# Kafka's own client has OAUTHBEARER since 2.0.
LACKS = {
    "kcat": {"OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512"},
    "kafka-clients 1.1.1": {"OAUTHBEARER"},
    "kafka-clients 0.11.0.3": {"OAUTHBEARER"},
}
IN_THIS_ENVIRONMENT = ("confluent-kafka", "aiokafka", "kafka-python")


@pytest.fixture(scope="module")
def accesses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Access]]:
    """Every way into one broker, which lets only its one user write and read."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.mark.parametrize(
    "client",
    [name if name in IN_THIS_ENVIRONMENT else pytest.param(name, marks=pytest.mark.long) for name in CLIENTS],
)
def test_a_client_gets_in_by_every_way_that_it_has(client: str, accesses: list[Access]) -> None:
    tried = [each for each in accesses if each.mechanism not in LACKS.get(client, ())]
    assert CLIENTS[client](tried) == {each.name: VALUES for each in tried}
