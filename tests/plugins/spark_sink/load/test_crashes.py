"""`tidelog load` is killed after each single change of a file, and amid some: each record is there once."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.spark_sink.load.loads import RECORDS, KeptProgress, Lines, records_in, run
from tidelog.kernel import disk
from tidelog.plugins.spark_sink.load.directory import SUCCESS
from tidelog.plugins.spark_sink.load.plan import Chunk

NEVER = 1 << 30
OPERATIONS = ("open_file", "pwrite", "rename", "unlink", "mkdir", "remove_tree")

pytestmark = pytest.mark.in_memory


class Killed(BaseException):
    """No `except` of the product catches it, as none catches SIGKILL."""


class Killer:
    """Stands between product and disk, and kills at the step of a number: amid or after a change of a file.

    Before a change all is as after the last one.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._left = NEVER
        self.steps = 0
        for name in OPERATIONS:
            patch.setattr(disk, name, self._interposed(name, getattr(disk, name)))

    def arm(self, step: int) -> None:
        """Kill at so many steps from now on."""
        self._left = step
        self.steps = 0

    def step(self) -> None:
        """Kill if this is the step."""
        self.steps += 1
        self._left -= 1
        if self._left < 0:
            raise Killed

    def _interposed(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def interposed(*arguments: Any) -> Any:
            if name == "open_file" and not arguments[1] & os.O_CREAT:
                return operation(*arguments)
            if name == "pwrite":
                operation(arguments[0], arguments[1][: len(arguments[1]) // 2], arguments[2])
                self.step()
            if name == "remove_tree":
                for file in sorted(Path(arguments[0]).rglob("*.txt"))[:1]:
                    file.unlink()
                    self.step()
            result = operation(*arguments)
            self.step()
            return result

        return interposed


class KilledInside(Lines):
    """Is also killed while it writes a chunk, with files of some of its ranges."""

    def __init__(self, killer: Killer) -> None:
        self._killer = killer

    def write(self, chunk: Chunk, folder: Path, on_progress: Callable[[float], None]) -> int:
        def on_file(share: float) -> None:
            self._killer.step()

        return super().write(chunk, folder, on_file)


def life(path: Path, killer: Killer, step: int, **changes: Any) -> bool:
    """One process: whether it came to its end."""
    killer.arm(step)
    try:
        run(path, writer=lambda plan: nullcontext(KilledInside(killer)), **changes)
    except Killed:
        return False
    return True


def expect_each_record_once(path: Path, *, complete: bool) -> None:
    """What is there is there once, at any time; everything, when the load is complete."""
    found = records_in(path) if path.exists() else Counter()
    assert set(found.values()) <= {1}
    assert found.keys() <= set(RECORDS)
    if complete:
        assert sorted(found) == sorted(RECORDS)
    assert not (path / SUCCESS).exists() or sorted(found) == sorted(RECORDS)


def test_load_killed_at_any_step_has_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer, chance, ended = Killer(monkeypatch), random.Random(13), False
    step = 0
    while not ended:
        path = tmp_path / f"{step}"
        ended = life(path, killer, step)
        expect_each_record_once(path, complete=ended)
        # The second life ends somewhere, too; the third one is the last.
        for next_step in (chance.randrange(step + 30), NEVER):
            expect_each_record_once(path, complete=life(path, killer, next_step))
        expect_each_record_once(path, complete=True)
        shutil.rmtree(path)
        step += 1
    assert step > 30


def test_load_that_is_overwritten_and_killed_at_any_step_has_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start has no --overwrite: it continues whichever of the two loads is there."""
    killer, ended, step = Killer(monkeypatch), False, 0
    while not ended:
        path = tmp_path / f"{step}"
        assert life(path, killer, NEVER)
        ended = life(path, killer, step, overwrite=True)
        expect_each_record_once(path, complete=ended)
        assert life(path, killer, NEVER)
        expect_each_record_once(path, complete=True)
        shutil.rmtree(path)
        step += 1
    assert step > 30


def test_load_does_not_write_again_what_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killer, path = Killer(monkeypatch), tmp_path / "target"
    step = 0
    while not life(path, killer, step):
        step += 2
        commits = len(list((path / "_tidelog_load" / "commits").glob("*.json")))
        if commits == 2:
            break
    killer.arm(NEVER)
    files = {file: file.stat().st_ino for file in path.rglob("chunk-*.txt")}
    shown = KeptProgress()
    assert run(path, progress=shown).chunks_before == 2
    assert shown.begun == [(11, 7)]
    assert {file: file.stat().st_ino for file in files} == files
