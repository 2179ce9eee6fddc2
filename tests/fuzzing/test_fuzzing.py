"""Some changes of each target's seeds, always the same ones; and what is kept of a finding."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fuzzing import target as watching
from tests.fuzzing.engine import TARGETS, fuzz_at_random, new_target, one_input
from tests.fuzzing.findings import Findings
from tests.fuzzing.target import Complaints, LoggedError, TooSlowError, watched

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

EXECUTIONS = {
    "batches": 400,
    "directory": 40,
    "frames": 200,
    "messages": 400,
    "sasl": 400,
    "scanner": 400,
    "tls": 100,
}


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_it_takes_whatever_comes(name: str, tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    with new_target(name) as target:
        fuzz_at_random(target, findings, EXECUTIONS[name], seed=4711)
    assert findings.executions > EXECUTIONS[name]
    assert findings.found == {}


class Fragile:
    """A target that does not take everything."""

    def __enter__(self) -> Fragile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def seeds(self) -> Sequence[bytes]:
        return [b"good"]

    def run(self, data: bytes) -> None:
        if data.startswith(b"bad"):
            json.loads(data)


def test_a_finding_is_kept_once_with_what_came_before_it(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    run = one_input(Fragile(), findings)
    for data in (b"first", b"second", b"bad one", b"bad two"):
        run(data)
    (name,) = findings.found
    assert (tmp_path / f"{name}.input").read_bytes() == b"bad one"
    assert "JSONDecodeError" in (tmp_path / f"{name}.text").read_text()
    before = json.loads((tmp_path / f"{name}.before").read_text())
    assert [bytes.fromhex(each) for each in before] == [b"first", b"second"]
    assert json.loads((tmp_path / "statistics.json").read_text()) == {
        "executions": 3,
        "found": findings.found,
    }


def test_what_takes_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SLOW_CPU_SECONDS", -1.0)
    with pytest.raises(TooSlowError, match="4 bytes took"):
        watched(Fragile(), b"good")


def test_an_error_that_is_only_logged_is_a_finding() -> None:
    complaints, logger = Complaints(), logging.Logger("tests")
    logger.addHandler(complaints)
    logger.error("refused as it should be")
    complaints.raise_first()
    try:
        raise KeyError("lost")
    except KeyError:
        logger.exception("failed inside the broker")
    with pytest.raises(LoggedError, match="KeyError: 'lost'"):
        complaints.raise_first()
    complaints.raise_first()
