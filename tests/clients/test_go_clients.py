"""franz-go and sarama, the clients of Go programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .go_programs import run_go
from .lines import lines_of, lines_read_back
from .payloads import ODD_PAYLOADS

if TYPE_CHECKING:
    from .brokers import Broker

CLIENTS = {
    "franz": "github.com/twmb/franz-go/pkg/kgo@v1.22.2",
    "sarama": "github.com/IBM/sarama@v1.61.1",
}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_codec(client: str, codec: str, broker: Broker, topic: str) -> None:
    arguments = [broker.bootstrap, topic, codec]
    printed = run_go(client, CLIENTS[client], arguments, lines_of(ODD_PAYLOADS))
    assert printed == lines_read_back(ODD_PAYLOADS)
