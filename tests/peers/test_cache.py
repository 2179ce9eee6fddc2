"""The cache's variable must not reach brokers as a configuration key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import CACHE_VARIABLE, running_tidelog


def test_a_broker_starts_while_the_cache_is_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    with running_tidelog(tmp_path) as server:
        assert server.process.is_running
