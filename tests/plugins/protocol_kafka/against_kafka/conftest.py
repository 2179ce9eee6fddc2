"""A connection to Apache Kafka and one to tidelog, of the brokers that the tests of the plugins share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .asking import Asker


@pytest.fixture(scope="session")
def kafka(shared_kafka: str) -> Iterator[Asker]:
    """Apache Kafka 4.4.0."""
    asker = Asker(shared_kafka)
    yield asker
    asker.close()


@pytest.fixture(scope="session")
def tidelog(shared_tidelog: str) -> Iterator[Asker]:
    """This broker."""
    asker = Asker(shared_tidelog)
    yield asker
    asker.close()
