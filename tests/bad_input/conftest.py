"""The brokers, started once, each asked the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.peers import OLD_PROTOCOLS_KAFKA, TidelogServer, running_kafka, running_tidelog

from .measured import measured_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.peers import KafkaServer

    from .measured import Measured


@pytest.fixture(scope="module")
def tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogServer]:
    """A tidelog broker in a process of its own."""
    settings = {"node.id": "1", "group.initial.rebalance.delay.ms": "0"}
    with running_tidelog(tmp_path_factory.mktemp("tidelog"), settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Apache Kafka's newest release."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="module")
def older_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Apache Kafka's last release that serves every version of the protocol."""
    with running_kafka(tmp_path_factory.mktemp("older_kafka"), version=OLD_PROTOCOLS_KAFKA) as server:
        yield server


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A broker of its own: others would be measured too."""
    with measured_broker(tmp_path_factory.mktemp("measured"), {}) as broker:
        yield broker
