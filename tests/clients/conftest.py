"""One broker for all the tests of a client."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from .brokers import running_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .brokers import Broker

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name that no other topic of the run has; the topic itself is not there yet."""
    return f"topic-{next(_numbers)}"
