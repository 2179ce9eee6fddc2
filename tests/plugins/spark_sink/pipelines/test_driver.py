"""Parts of the pipeline's own process that need no Spark."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path

import pytest

from tidelog.plugins.spark_sink.pipelines.driver import delivered_position
from tidelog.plugins.spark_sink.pipelines.news_pipe import STOP, NewsReceiver, NewsSender
from tidelog.plugins.spark_sink.pipelines.query import InvalidFunction, function_of
from tidelog.plugins.spark_sink.pipelines.reports import Report, explain


def test_news_wakes_the_receiver_once_however_much_there_is(tmp_path: Path) -> None:
    sender, receiver = NewsSender(tmp_path / "news"), NewsReceiver(tmp_path / "news")
    for _ in range(100_000):  # more than a pipe holds: the sender does not wait
        sender.send()
    assert receiver.wait(1000)
    assert not receiver.wait(0)
    sender.send(STOP)
    assert receiver.wait(1000)
    assert receiver.stopping
    assert not receiver.wait(1000)  # it does not wait any more
    sender.close()
    receiver.close()


def test_news_ends_with_the_process_that_sends_it(tmp_path: Path) -> None:
    sender, receiver = NewsSender(tmp_path / "news"), NewsReceiver(tmp_path / "news")
    assert not receiver.wait(0)
    sender.close()
    assert receiver.wait(1000)
    assert receiver.stopping
    receiver.close()


def test_news_reaches_a_program_with_thousands_of_open_files(tmp_path: Path) -> None:
    """More than `select` takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    sender, receiver = NewsSender(tmp_path / "news"), NewsReceiver(tmp_path / "news")
    opened: list[int] = []
    try:
        while not opened or opened[-1] < 1024:
            opened.append(os.open("/dev/null", os.O_RDONLY))
        assert not receiver.wait(0)
        sender.send()
        assert receiver.wait(1000)
    finally:
        for descriptor in opened:
            os.close(descriptor)
        receiver.close()
        sender.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_report_is_a_line_with_what_is_known() -> None:
    report = Report("running", position={"t": {"0": 5}}, batch=3)
    assert json.loads(report.to_line()) == {"state": "running", "position": {"t": {"0": 5}}, "batch": 3}
    assert Report.from_line(report.to_line()) == report
    assert Report.from_line('{"state": "failed", "of_a_later_version": 1}') == Report("failed")
    for line in ("{", "[]", "{}"):
        with pytest.raises(ValueError, match="is no report"):
            Report.from_line(line)


def test_delivered_position_is_that_of_the_last_complete_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert delivered_position(str(tmp_path)) is None
    for folder, number, text in (
        ("offsets", 9, 'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 5}}'),
        ("offsets", 10, 'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 7}}'),
        ("offsets", 11, 'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 9}}'),
        ("commits", 9, "v1\n{}"),
        ("commits", 10, "v1\n{}"),
        ("commits", ".10.crc", ""),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / str(number)).write_text(text)
    for scheme in ("", "file:", "file://"):
        assert delivered_position(f"{scheme}{tmp_path}") == {"t": {"0": 7}}
    elsewhere = tmp_path / "s3a:" / "bucket"
    for folder in ("offsets", "commits"):
        shutil.copytree(tmp_path / folder, elsewhere / folder)
    monkeypatch.chdir(tmp_path)
    assert delivered_position("s3a://bucket") is None


SPARKS = """[STREAM_FAILED] Query [id = x] terminated with exception: boom
=== Streaming Query ===
py4j.Py4JException: An exception was raised. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 1, in call
    self.func(x)
  File "mine.py", line 2, in f
    raise ValueError("no tide: low")
mine.Errors.ValueError: no tide: low

	at py4j.Protocol.getReturnValue
"""


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        (SPARKS, "ValueError: no tide: low"),
        ("[UNRESOLVED_COLUMN] A column cannot be resolved.\n'Project", "[UNRESOLVED_COLUMN] A column cannot"),
        ("something", "RuntimeError: something"),
        ("", "RuntimeError: no reason is given"),
    ],
)
def test_explain_is_one_line_with_the_cause(text: str, explained: str) -> None:
    assert explain(RuntimeError(text)).startswith(explained)
    assert "\n" not in explain(RuntimeError(text))


def test_function_of_finds_functions_and_methods_or_says_what_is_missing() -> None:
    assert function_of("json:dumps") is json.dumps
    assert function_of("json:JSONEncoder.encode") is json.JSONEncoder.encode
    with pytest.raises(InvalidFunction, match="json:dumpz: the module json has no function dumpz"):
        function_of("json:dumpz")
