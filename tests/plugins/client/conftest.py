"""Tests of drivers run once for each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.client.driven import DRIVERS


@pytest.fixture(params=DRIVERS)
def connect(request: pytest.FixtureRequest) -> Any:
    """`async with connect(bootstrap, settings) as client` gives a `Driven`."""
    return DRIVERS[request.param]
