"""The same tests with four servers: running them, and the page of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.testkits.kit import Kit
from benchmarks.testkits.page import lines_of_go, lines_of_python, page
from benchmarks.testkits.run import Done, KitResult, Lacking, run
from benchmarks.testkits.scenarios import SCENARIOS
from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parents[2]


class FakeKit(Kit):
    title = "fake"
    started = 0

    def start(self) -> None:
        type(self).started += 1

    def stop(self) -> None:
        pass


class SharedKit(FakeKit):
    title = "shared"
    is_shared = True


def does_nothing(kit: Kit) -> None:
    pass


def needs_time(kit: Kit) -> None:
    kit.pass_time(1)


def test_run_names_what_a_server_lacks_and_starts_one_for_each_test_unless_it_is_shared() -> None:
    reported: list[str] = []
    result = run(FakeKit, [does_nothing, needs_time], lambda name, _: reported.append(name), 2)
    assert [each for each, _ in result.outcomes] == reported == ["does_nothing", "needs_time"]
    assert isinstance(result.outcomes[0][1], Done)
    assert result.outcomes[1][1] == Lacking("time cannot be moved")
    assert result.done == 1
    assert FakeKit.started == 5, "a warm-up, a start, two of the first test, one of the second"
    run(SharedKit, [does_nothing, needs_time], lambda *_: None)
    assert SharedKit.started == 1 + FakeKit.started


def test_page_has_seconds_reasons_and_lines() -> None:
    results = [
        KitResult(FakeKit, 0.5, [("one_thing", Done(1.0)), ("other", Done(2.0))]),
        KitResult(SharedKit, 1.5, [("one_thing", Done(4.0)), ("other", Lacking("why"))]),
    ]
    for each in (FakeKit, SharedKit):
        each.__module__ = "benchmarks.testkits.kfake_kit"
    text = page(results)
    assert "| one thing | 1.00 | 4.00 |\n| other | 2.00 | — |\n| done | 2 of 2 | 1 of 2 |" in text
    assert "| the same ones | 1.00 | 4.00 |" in text
    assert "| shared | other | why |" in text
    assert lines_of_python('"""Doc."""\n# why\n\nx = 1\ny = (\n    2\n)\n') == 4
    assert lines_of_go("// why\npackage main\n\nvar x int\n") == 2


def test_twenty_tests_have_names_of_their_own() -> None:
    assert len({each.__name__ for each in SCENARIOS}) == 20


def test_command_runs_tests_with_tidelog() -> None:
    command = [sys.executable, "-m", "benchmarks.testkits", "--kit", "tidelog", "--repeat", "1"]
    for each in ("a_record_is_written_and_read", "a_refused_record_is_sent_again", "records_expire"):
        command += ["--test", each]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "tidelog",
        "a_record_is_written_and_read",
        "records_expire",
        "a_refused_record_is_sent_again",
    ]
