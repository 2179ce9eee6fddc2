"""A round of a directory in the hands of both brokers; `make hands` goes through more.

`HANDS_SEED` chooses what is done.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidelog.plugins.coordinator.runtime.hashing import java_hash

from .names import NAMES
from .run import Hands

ROUNDS = 1
SEED = int(os.environ.get("HANDS_SEED", "11"))


def test_names_are_of_every_kind() -> None:
    hashes = {kind: java_hash(name) for kind, name in NAMES.items()}
    assert hashes["negative"] < 0 < hashes["positive"]
    assert (hashes["smallest"], hashes["zero"]) == (-(2**31), 0)
    assert hashes["outside the basic plane"] < 0


@pytest.mark.long
def test_nothing_changes_with_the_hands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def report(line: str) -> None:
        with capsys.disabled():
            print(line)

    Hands(tmp_path, SEED, report).run(ROUNDS)
