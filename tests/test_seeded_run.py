"""How a long random run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeded_run import seeded_run


def test_seeded_run_that_fails_says_how_to_repeat_it_and_keeps_its_folder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_, seeded_run("soak", "--minutes 3", None, None) as run:
        raise AssertionError("a record is missing")
    shown = capsys.readouterr().out
    assert exit_.value.code == 1
    assert "FAILED: a record is missing" in shown
    assert (
        f"again: python -m tests.soak --minutes 3 --seed {run.seed}; everything is in {run.folder}" in shown
    )
    assert run.folder.is_dir()
    run.folder.rmdir()


def test_seeded_run_that_passes_removes_only_a_temporary_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with seeded_run("hands", "--rounds 2", 5, None) as temporary:
        (temporary.folder / "file").touch()
    with seeded_run("hands", "--rounds 2", 5, tmp_path / "kept") as kept:
        (kept.folder / "file").touch()
    assert (kept.seed, temporary.seed) == (5, 5)
    assert not temporary.folder.exists()
    assert (tmp_path / "kept" / "file").exists()
    assert capsys.readouterr().out.count("passed") == 2
