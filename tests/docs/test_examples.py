"""How examples of pages are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import Example, run_example

BROKER = "tidelog serve --set listeners=PLAINTEXT://127.0.0.1:0 --set log.dirs=data --ready-file ready.json"
UNTIL_READY = "until [ -e ready.json ]; do sleep 0.05; done"


def run(text: str, folder: Path, prints: str | None = None) -> None:
    run_example(Example("sh", text, prints), folder)


def test_run_example_fails_at_once_when_its_broker_ends_before_it_is_ready(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no.such.key(.|\n)*what runs in the background ended with 2"):
        run(f"{BROKER} --set no.such.key=1 &\n{UNTIL_READY}", tmp_path)


def test_run_example_that_fails_leaves_no_broker_behind(tmp_path: Path) -> None:
    # The broker holds the output open: without that it would be read for as long as the broker runs.
    with pytest.raises(AssertionError, match="tidelog is ready"):
        run(f"{BROKER} &\n{UNTIL_READY}\nfalse", tmp_path)
    assert not (tmp_path / "ready.json").exists()


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_run_example_may_end_its_broker(tmp_path: Path, signal: str) -> None:
    run(
        f"{BROKER} > broker.log &\n{UNTIL_READY}\nkill -{signal} %1\nwait\necho behind",
        tmp_path,
        "behind\n",
    )
