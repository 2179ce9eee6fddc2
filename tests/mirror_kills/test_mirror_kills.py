"""A kill of each mirror and each broker; `make mirror-kills` does more.

`MIRROR_KILLS_SEED` chooses when, and in which order.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .run import MirrorKills

KILLS = 5
SEED = int(os.environ.get("MIRROR_KILLS_SEED", "35"))


def test_kills_of_mirrors_and_brokers_leave_each_record_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def report(line: str) -> None:
        with capsys.disabled():
            print(line)

    MirrorKills(tmp_path, SEED, report).run(KILLS)
