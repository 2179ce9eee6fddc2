"""The compiled scanner and its source say the same, and a process runs the one that it is to run."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError
from tests.tables import for_each
from tidelog.kernel.records import scanner
from tidelog.kernel.records.batch import HEADER_BYTES
from tidelog.kernel.records.scanner import LEAST_DELTA, MOST_DELTA
from tidelog.kernel.testing import make_batch

from .compare_builds import SOURCE, difference, verdict
from .odd_batches import records_of, sample, spoiled

SAMPLES = 2000


def test_both_builds_make_the_same_of_batches_with_anything_in_them() -> None:
    dice = random.Random(3311)
    samples = [sample(dice) for _ in range(SAMPLES)]
    assert [found for each in samples if (found := difference(each)) is not None] == []
    verdicts = [verdict(each) for each in samples]
    for one in ("taken", "InvalidRecord", "InvalidTimestamp"):
        assert verdicts.count(one) > SAMPLES / 50


@given(
    data=st.binary(max_size=60) | st.integers(0, 2**32).map(lambda seed: records_of(random.Random(seed))[0]),
    position=st.integers(0, 60),
    stop=st.integers(-1, 10),
    deltas=st.tuples(*[st.integers(-3, 3) | st.sampled_from([LEAST_DELTA, MOST_DELTA])] * 3),
    flags=st.tuples(st.booleans(), st.booleans()),
    most=st.tuples(st.integers(0, 4), st.integers(0, 100)),
)
def test_both_builds_scan_any_bytes_alike(
    data: bytes,
    position: int,
    stop: int,
    deltas: tuple[int, int, int],
    flags: tuple[bool, bool],
    most: tuple[int, int],
) -> None:
    found: list[object] = []
    for module in (scanner, SOURCE):
        fields, scan = BytesWriter(), module.Scanner(*deltas, *flags, *most)
        ends = [scan.scan(data, position, stop, fields), scan.scan(data, position, stop + 1)]
        found.append([ends, scan.index, scan.newest_delta, scan.is_stuck, scan.end, fields.getvalue()])
    assert found[0] == found[1]


@for_each(("pure", "shown"), [("", "compiled: scanner"), ("1", "pure Python")])
def test_a_process_says_which_build_it_runs(pure: str, shown: str) -> None:
    if not any(Path(scanner.__file__).parent.glob("scanner.*.so")):
        if os.environ.get("CI"):
            pytest.fail("the scanner was not compiled here")
        shown = "pure Python"
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_PURE"}
    for command in ("--version", "config"):
        done = subprocess.run(
            [sys.executable, "-m", "tidelog.kernel", command],
            env={**environment, "TIDELOG_PURE": pure} if pure else environment,
            capture_output=True,
            text=True,
            check=True,
        )
        # Other modules may be compiled, too.
        assert f"({shown}" in done.stdout.splitlines()[-1]


@given(
    sizes=st.lists(st.integers(0, 40) | st.sampled_from([62, 63, 64, 500]), min_size=1, max_size=30),
    window=st.integers(5, 200),
    spoil=st.none() | st.integers(0, 2**32),
)
def test_a_view_is_checked_window_by_window_as_the_whole_is(
    sizes: list[int], window: int, spoil: int | None
) -> None:
    records = bytes(make_batch([bytes(size) for size in sizes])[HEADER_BYTES:])
    if spoil is not None:
        records = spoiled(random.Random(spoil), records)
    rules = (1000, 0, 2000, False, 450)
    whole = SOURCE.check_at_once(records, len(sizes), *rules)
    assert (whole is None) or (spoil is not None) or max(sizes) < 450
    with patch.object(SOURCE, "WINDOW_BYTES", window):
        assert SOURCE.check_at_once(memoryview(records), len(sizes), *rules) == whole
    assert scanner.check_at_once(memoryview(records), len(sizes), *rules) == whole


@for_each("size", [1, 65_000, 65_536, 200_000])
def test_a_view_of_many_windows_is_checked(size: int) -> None:
    records = bytes(make_batch([bytes(size)] * (300_000 // size + 1))[HEADER_BYTES:])
    count = 300_000 // size + 1
    for module in (scanner, SOURCE):
        assert module.check_at_once(memoryview(records), count, 5, 0, 9, False, 2**31 - 1) == 5
        assert module.check_at_once(memoryview(records[:-1]), count, 5, 0, 9, False, 2**31 - 1) is None
        assert module.check_at_once(memoryview(records + b"\0"), count, 5, 0, 9, False, 2**31 - 1) is None


@pytest.mark.long
def test_the_compiled_scanner_reads_nothing_beyond_a_buffer(tmp_path: Path) -> None:
    """Nor does it overflow: its sanitizers end it then."""
    if shutil.which("cc") is None:
        raise PeerUnavailableError("the sanitized scanner", "a C compiler is missing")
    dice = random.Random(4811)
    for number in range(SAMPLES // 10):
        (tmp_path / f"{number}").write_bytes(bytes([dice.randrange(8)]) + sample(dice).batch)
    script = Path(__file__).parents[3] / "scripts" / "sanitize_scanner.sh"
    done = subprocess.run(
        [script, "200", tmp_path], capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 inputs of" in done.stdout
    assert "200 batches, no difference" in done.stdout
