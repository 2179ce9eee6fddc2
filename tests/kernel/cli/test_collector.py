"""The garbage collector is held back only while a broker starts."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from tidelog.kernel.cli.collector import RARE_OBJECTS, rare_collections
from tidelog.kernel.cli.main import tidelog


def failing_start() -> None:
    with rare_collections():
        raise RuntimeError(f"failed, at {gc.get_threshold()[0]} objects")


def test_a_start_that_failed_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError, match=f"failed, at {RARE_OBJECTS} objects"):
        failing_start()
    assert gc.get_threshold() == before


def test_a_broker_that_is_ready_collects_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(*_: object) -> None:
        seen.append(gc.get_threshold()[0])

    async def serve(*_: object, on_ready: Callable[[object], None], **__: object) -> None:
        look()
        on_ready(None)

    monkeypatch.setattr("tidelog.kernel.broker.serve", serve)
    monkeypatch.setattr("tidelog.kernel.cli.ready.ReadyReport.__call__", look)
    monkeypatch.setattr("tidelog.kernel.cli.log_format.set_up_logging", lambda *_: None)
    usual = gc.get_threshold()[0]
    tidelog.main(["serve", "--set", "storage=memory"], standalone_mode=False)
    assert seen == [RARE_OBJECTS, usual]
    assert gc.get_threshold()[0] == usual
