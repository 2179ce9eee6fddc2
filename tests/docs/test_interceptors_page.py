"""docs/interceptors.md: its example does what the page says, and its limits are those of the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, examples_of, run_example, run_example_on
from tidelog.kernel.request import active_interceptor, interception, interceptor_threads, rewriting
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.protocol_kafka.interception import fetching

PAGE = (DOCS / "interceptors.md").read_text()


def test_the_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jsonschema")
    monkeypatch.chdir(tmp_path)
    *files, commands = [each for each in examples_of("interceptors.md") if '"arrival"' not in each.text]
    for each in files:
        run_example(each, tmp_path)
    settings = tomllib.loads((tmp_path / "broker.toml").read_text())
    with broker_in_thread(settings) as running:
        run_example_on(commands, running.bootstrap, tmp_path)


def test_the_limits_are_those_of_the_code() -> None:
    numbers = re.findall(r"\d+", PAGE.partition("| limit | |\n")[2].partition("\n\n")[0])
    assert [int(number) for number in numbers] == [
        rewriting.MAX_REWRITTEN_BYTES >> 20,
        fetching.MAX_RESPONSE_BYTES >> 20,
        rewriting.MAX_REFUSED,
    ]
    assert f"at most {interception.LOOP_RECORDS} records, {interception.LOOP_BYTES >> 10} KiB" in PAGE
    assert interceptor_threads.THREADS == interceptor_threads.MAX_LEFT_BEHIND == 4
    assert f"{active_interceptor.SLOW_SECONDS * 1000:.0f} ms is logged" in PAGE
    assert active_interceptor.LOG_INTERVAL_S == 1
