"""Errors as a person at the console sees them."""

from __future__ import annotations

import click
import pytest

from tidelog.kernel.cli.failures import report
from tidelog.kernel.errors import ConfigError, PluginError, StorageError

REPORTS: list[tuple[BaseException, int, str]] = [
    (ConfigError("bad"), 2, "tidelog: bad\n"),
    (PluginError("bad"), 2, "tidelog: bad\n"),
    (StorageError("disk"), 1, "tidelog: disk\n"),
    (click.ClickException("hm"), 1, "tidelog: hm\n"),
    (KeyboardInterrupt(), 130, ""),
    (click.Abort(), 130, ""),
    (SystemExit(143), 143, ""),
    (SystemExit(None), 0, ""),
    (SystemExit("words"), 1, "tidelog: words\n"),
    (FileNotFoundError(2, "No such file or directory", "x"), 1, "tidelog: x: No such file or directory.\n"),
    (ConnectionRefusedError(111, "Connection refused"), 1, "tidelog: Connection refused.\n"),
    (
        ValueError("odd"),
        1,
        "tidelog: An unexpected ValueError: odd. Please report it, with the output of --debug.\n",
    ),
    (ExceptionGroup("g", [ConfigError("bad")]), 2, "tidelog: bad\n"),
    (
        ExceptionGroup("g", [ConfigError("a"), ExceptionGroup("h", [StorageError("b")])]),
        2,
        "tidelog: a\ntidelog: b\n",
    ),
    (BaseExceptionGroup("g", [BaseExceptionGroup("h", [SystemExit(130)])]), 130, ""),
]


@pytest.mark.parametrize(("error", "code", "printed"), REPORTS)
def test_one_sentence_per_cause_and_an_exit_code(
    error: BaseException, code: int, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == code
    assert capsys.readouterr() == ("", printed)


def test_report_prints_an_error_that_occurs_twice_in_a_group_once(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigError("bad")
    assert report(ExceptionGroup("g", [error, ExceptionGroup("h", [error])])) == 2
    assert capsys.readouterr().err == "tidelog: bad\n"
