"""Two clusters in memory, which the tests of a module share: each has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog.kernel.testing.broker import broker_in_thread


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    """Bootstrap servers of source and target."""
    with broker_in_thread() as source, broker_in_thread() as target:
        yield source.bootstrap, target.bootstrap
