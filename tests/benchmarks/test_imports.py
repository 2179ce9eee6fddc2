from __future__ import annotations

import subprocess
import sys

from benchmarks.scenarios.imports import imported_seconds

OUTPUT = """\
import time: self [us] | cumulative | imported package
import time:      9000 |      10000 |   encodings
import time:      5000 |      15000 | site
import time:       300 |        300 |   trio._core
import time:       700 |       1000 | trio
A line of the broker's own.
"""


def test_only_what_the_program_imports_counts() -> None:
    assert imported_seconds(OUTPUT) == 0.001


def test_this_interpreter_prints_what_is_expected() -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import fractions"], capture_output=True, text=True
    )
    nothing = subprocess.run([sys.executable, "-X", "importtime", "-c", ""], capture_output=True, text=True)
    assert 0 < imported_seconds(told.stderr) < 5
    assert imported_seconds(nothing.stderr) < imported_seconds(told.stderr)
