"""Connectors and old console consumers in one group divide the partitions, whatever happens to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.zookeeper.consumers.mixed_group import run_mixed_group

pytestmark = pytest.mark.long


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
def test_connectors_and_old_consumers_divide_the_partitions(release: str, tmp_path: Path) -> None:
    figures = run_mixed_group(release, 16, tmp_path)
    assert figures.produced > 0
    assert (figures.missing, figures.twice) == (0, 0)
