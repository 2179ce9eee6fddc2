"""Real brokers that tests of several plugins share: each is started once, when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.peers import running_kafka, running_tidelog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def shared_tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a tidelog broker; tests use topics of their own."""
    with running_tidelog(tmp_path_factory.mktemp("tidelog")) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def shared_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of an Apache Kafka; tests use topics of their own."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server.bootstrap


@pytest.fixture(params=["tidelog", "kafka"])
def real_broker(request: pytest.FixtureRequest) -> str:
    """`host:port` of each broker in turn."""
    bootstrap: str = request.getfixturevalue(f"shared_{request.param}")
    return bootstrap
