"""A kill of a Python worker; `make spark-kills` does more, of all kinds.

`SPARK_KILLS_SEED` chooses when, and which. tests/docs/test_spark_pipelines_run.py kills a driver.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.peers import PeerUnavailableError
from tests.random_kills import check_each_once
from tidelog.plugins.spark_sink.java import JavaNotFound, find_java

from .run import Kills

KILLS = 1
SEED = int(os.environ.get("SPARK_KILLS_SEED", "13"))


@pytest.mark.parametrize(
    ("found", "message"),
    [(["a"], "1 of 2 are missing in here: ..'b'"), (["a", "b", "b"], "1 are too much in here: ..'b'")],
)
def test_check_each_once_finds_what_is_missing_or_too_much(found: list[str], message: str) -> None:
    with pytest.raises(AssertionError, match=message.replace("..'", r"\['")):
        check_each_once("here", ["a", "b"], Counter(found))
    check_each_once("here", ["a", "b"], Counter(["b", "a"]))


@pytest.mark.long
def test_kills_leave_each_record_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_java()
    except JavaNotFound as error:
        raise PeerUnavailableError("Spark", str(error)) from error

    def report(line: str) -> None:
        with capsys.disabled():
            print(line)

    Kills(tmp_path, SEED, report).run(KILLS)
