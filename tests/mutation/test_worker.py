"""The process that runs tests against changed modules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.mutation.worker import TIMED_OUT

ROOT = Path(__file__).parents[2]
MODULE = "TWO = 2\ndef double(x):\n    return TWO * x + 0\ndef late():\n    return 7\n"
TEST = """
import sys
sys.path.insert(0, ".")
from module import double, late
MADE_WHEN_COLLECTED = late()
def test_double():
    assert double(3) == 6
def test_double_of_zero():
    assert double(0) == 0
def test_late():
    assert MADE_WHEN_COLLECTED == 7
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "test_module.py").write_text(TEST)
    return tmp_path


def outcomes(copy: Path, *texts: str) -> list[dict[str, Any]]:
    limits = {"cpu_seconds": 2, "wall_seconds": 60}
    runs = [
        {"module": "module.py", "text": text, "tests": ["test_module.py"], "ignored": [], **limits}
        for text in texts
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation.worker"],
        cwd=copy,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        input="".join(json.dumps(run) + "\n" for run in runs),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_run_sees_its_own_text_and_the_module_is_put_back(copy: Path) -> None:
    # In functions and outside, and within one tick of the file's clock: bytecode of the one before must not
    # be believed.
    changes = [
        ("", ""),
        ("*", "/"),
        ("+", "-"),
        ("*", "+"),
        ("+", "*"),
        ("= 2", "= 3"),
        ("*", "-"),
        ("7", "8"),
        ("", ""),
    ]
    texts = [MODULE.replace(*change) for change in changes]

    assert [outcome["code"] for outcome in outcomes(copy, *texts)] == [0, 1, 0, 1, 1, 1, 1, 1, 0]
    assert (copy / "module.py").read_text() == MODULE


@pytest.mark.long
def test_a_mutant_that_never_ends_is_stopped(copy: Path) -> None:
    endless = MODULE.replace("return", "while True: pass\n    return")

    assert [outcome["code"] for outcome in outcomes(copy, endless, MODULE)] == [TIMED_OUT, 0]
