"""What is counted of the calls that flush."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.sync_calls import SyncCalls, parse_counts

COUNTED = """\
3,,syscalls:sys_enter_fsync,901,100.00,,
40,,syscalls:sys_enter_fdatasync,901,100.00,,
0,,syscalls:sys_enter_msync,901,100.00,,
"""


def test_parse_counts_adds_the_calls() -> None:
    assert parse_counts(COUNTED) == 43


@pytest.mark.parametrize(
    "printed", ["", "Error:\nNo permission.\n", COUNTED.replace("40,", "<not counted>,")]
)
def test_parse_counts_knows_nothing_where_a_call_was_not_counted(printed: str) -> None:
    assert parse_counts(printed) is None


def test_nothing_is_counted_without_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with SyncCalls(1) as calls:
        calls.begin()
        assert calls.end() is None


def test_perf_that_may_not_count_ends_with_the_block() -> None:
    """There may be no `perf` here, or no permission: the count is right or unknown, and nothing is left."""
    flush = "import os, sys, tempfile\nwith tempfile.TemporaryFile() as f:\n  sys.stdin.readline()\n"
    flush += "  for _ in range(7): os.fsync(f.fileno())\n  print('done', flush=True); sys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-c", flush], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with SyncCalls(process.pid) as calls:
            calls.begin()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            assert calls.end() in (7, None)
        process.stdin.write("\n")
