"""The log for people and as JSON."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.cli.log_format import HumanFormatter, JsonFormatter, set_up_logging
from tidelog.kernel.errors import ConfigError


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def root_logging() -> Generator[None]:
    """Whatever a test does to the root logger is undone."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for added in set(root.handlers).difference(handlers):
        added.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def record(
    message: str, *arguments: object, level: int = logging.INFO, **fields: object
) -> logging.LogRecord:
    made = logging.getLogger("tidelog.kernel.network").makeRecord(
        "tidelog.kernel.network", level, __file__, 1, message, arguments, None, extra=fields
    )
    made.created = 1_000_000_000.5
    return made


def human(made: logging.LogRecord) -> str:
    """The line without its time, which is local."""
    return HumanFormatter(colours=False).format(made).partition(".500 ")[2]


LINES: list[tuple[logging.LogRecord, str]] = [
    (record("listening"), "INFO    network: listening"),
    (record("at %s", "x", level=logging.WARNING), "WARNING network: at x"),
    (record("hi", peer="1.2.3.4:5", count=3), "INFO    network: hi peer=1.2.3.4:5 count=3"),
    (record("hi", reason="two words", empty=""), 'INFO    network: hi reason="two words" empty=""'),
    (record("a\nb %s", "c\x1b[31m"), "INFO    network: a\\nb c\\x1b[31m"),
    (record("hi", topic="x\r\n2001 ERROR"), 'INFO    network: hi topic="x\\r\\n2001 ERROR"'),
]


@for_each(("made", "line"), LINES)
def test_human_formatter_writes_level_source_message_and_fields(made: logging.LogRecord, line: str) -> None:
    assert human(made) == line


def test_human_formatter_begins_a_line_with_local_time_in_milliseconds() -> None:
    line = HumanFormatter(colours=False).format(record("x"))
    assert line[:4] == "2001"
    assert line[10:11] == " "
    assert line[19:24] == ".500 "


def test_human_formatter_shortens_only_logger_names_of_tidelog() -> None:
    made = record("x")
    made.name = "tidelog.plugins.storage_file.recovery"
    assert human(made) == "INFO    storage_file.recovery: x"
    made.name = "acme"
    assert human(made) == "INFO    acme: x"


def fail() -> None:
    raise ValueError("no")


def test_human_formatter_and_json_formatter_include_the_traceback() -> None:
    with pytest.raises(ValueError, match="no") as caught:
        fail()
    made = record("broken")
    made.exc_info = (caught.type, caught.value, caught.tb)
    lines = human(made).splitlines()
    assert lines[0] == "INFO    network: broken"
    assert lines[-1] == "ValueError: no"
    assert "ValueError: no" in json.loads(JsonFormatter().format(made))["exception"]


def test_json_formatter_writes_time_level_logger_message_and_fields() -> None:
    line = JsonFormatter().format(
        record("at %s", "x", level=logging.WARNING, peer="1.2.3.4", count=3, other={1})
    )
    assert json.loads(line) == {
        "time": "2001-09-09T01:46:40.500Z",
        "level": "warning",
        "logger": "tidelog.kernel.network",
        "message": "at x",
        "peer": "1.2.3.4",
        "count": 3,
        "other": "{1}",
    }


def test_json_formatter_lets_no_field_override_its_own_keys() -> None:
    assert json.loads(JsonFormatter().format(record("x", level_="fine", time="never")))["time"] != "never"


@given(st.text(), st.text())
def test_human_formatter_and_json_formatter_write_one_line_for_any_text(message: str, value: str) -> None:
    made = record("%s", message, peer=value)
    assert len(human(made).splitlines()) == 1
    line = JsonFormatter().format(made)
    assert len(line.splitlines()) == 1
    assert json.loads(line)["peer"] == value


FORMATS: list[tuple[str, io.StringIO, bool, bool]] = [
    ("auto", io.StringIO(), False, False),
    ("auto", Terminal(), False, True),
    ("human", Terminal(), False, True),
    ("json", Terminal(), True, False),
    ("json", io.StringIO(), True, False),
]


@pytest.mark.usefixtures("root_logging")
@pytest.mark.parametrize(("log_format", "stream", "is_json", "has_colours"), FORMATS)
def test_the_format_suits_the_stream(
    log_format: str,
    stream: io.StringIO,
    is_json: bool,
    has_colours: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logging(log_format, "info")
    logging.getLogger("tidelog.x").warning("hello", extra={"peer": "p"})
    logging.getLogger("tidelog.x").debug("not this")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("{") == is_json
    assert ("\x1b[" in line) == has_colours


@pytest.mark.usefixtures("root_logging")
def test_log_file_is_opened_again_after_it_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    file = tmp_path / "broker.log"
    set_up_logging("auto", "info", str(file))
    log = logging.getLogger("tidelog.x")
    log.info("one")
    file.rename(tmp_path / "broker.log.1")
    log.info("two")
    assert (tmp_path / "broker.log.1").read_text().endswith(" x: one\n")
    assert file.read_text().endswith(" x: two\n")
    assert "\x1b[" not in file.read_text()
    file.unlink()
    log.info("three")
    assert file.read_text().endswith(" x: three\n")


@pytest.mark.usefixtures("root_logging")
def test_what_the_log_file_cannot_take_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, away = tmp_path / "logs", tmp_path / "away"
    folder.mkdir()
    set_up_logging("auto", "info", str(folder / "broker.log"))
    log = logging.getLogger("tidelog.x")
    folder.rename(away)
    log.info("one")
    log.info("two")
    away.rename(folder)
    log.info("three")
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["one", "two"]
    assert (folder / "broker.log").read_text().endswith(" x: three\n")


def test_log_file_that_cannot_be_written_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"none/broker\.log' cannot be written: No such file.* directory has to exist"
    ):
        set_up_logging("json", "info", str(tmp_path / "none" / "broker.log"))
