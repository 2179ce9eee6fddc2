"""What a load shows while it runs: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr

import click
import pytest

from tidelog.plugins.spark_sink.load.directory import Commit
from tidelog.plugins.spark_sink.load.progress import LoadProgressBar

COMMIT = Commit(chunk=1, staging="000001-x", files=("a", "b"), records=3, size_bytes=100)
SHOW_CURSOR = "\x1b[?25h"


class Terminal(io.StringIO):
    """A terminal that keeps all it was sent."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What it has shown, one state of the bar after the other."""
        return [line for line in re.split(r"[\r\n]+", click.unstyle(self.getvalue())) if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 100 columns."""
    for name, value in (("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    return Terminal()


@pytest.mark.parametrize(("done", "first"), [(0, ""), (3, "Continuing: 3 of 11 offsets are loaded.\n")])
def test_lines_on_standard_error_are_of_what_was_there_and_of_each_chunk(
    done: int, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoadProgressBar() as progress:
        progress.begin(11, done)
        progress.advance(5)
        progress.committed(COMMIT, 3, 7)
    assert capsys.readouterr() == ("", f"{first}Chunk 2 of 3: 3 records in 2 files.\n")


def test_a_bar_on_a_terminal_advances_within_a_chunk_and_with_it(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    with redirect_stderr(terminal), LoadProgressBar() as progress:
        progress.begin(11_000, 3_000)
        progress.advance(5_000.4)
    assert re.fullmatch(r"Starting Spark +\S+ +3,000 of 11,000 offsets .*", terminal.lines()[0])
    assert re.fullmatch(r"Loading +\S+ +5,000 of 11,000 offsets .*", terminal.lines()[-1])
    with redirect_stderr(terminal), LoadProgressBar() as progress:
        progress.begin(11_000, 3_000)
        progress.committed(COMMIT, 3, 7_000)
    assert re.fullmatch(r"Loading +\S+ +7,000 of 11,000 offsets .*", terminal.lines()[-1])
    assert not [line for line in terminal.lines() if not line.startswith(("Starting Spark ", "Loading "))]
    assert capsys.readouterr() == ("", "")


def test_a_bar_ends_with_the_load_that_fails(terminal: Terminal) -> None:
    def fail() -> None:
        with redirect_stderr(terminal), LoadProgressBar() as progress:
            progress.begin(11, 0)
            raise RuntimeError("the load")

    with pytest.raises(RuntimeError, match="the load"):
        fail()
    assert SHOW_CURSOR in terminal.getvalue().splitlines()[-1]
