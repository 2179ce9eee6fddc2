"""A connection to Apache Kafka and one to tidelog, of the brokers that the tests of the plugins share.

Each file has its own: brokers close what is idle for ten minutes, and the files of others take longer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .asking import Asker


@pytest.fixture(scope="module")
def kafka(shared_kafka: str) -> Iterator[Asker]:
    """Apache Kafka 4.4.0."""
    asker = Asker(shared_kafka)
    yield asker
    asker.close()


@pytest.fixture(scope="module")
def tidelog(shared_tidelog: str) -> Iterator[Asker]:
    """This broker."""
    asker = Asker(shared_tidelog)
    yield asker
    asker.close()
