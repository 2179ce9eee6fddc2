"""The page about HTTP: its commands are run, and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tidelog.kernel.config import declared_keys
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.protocol_http import keys

PAGE = (Path(__file__).resolve().parents[2] / "docs/http.md").read_text()
WITH_ERRORS = {28: "what `curl -m` returns when its time is over"}


def commands() -> list[tuple[str, str]]:
    """The commands of the page, in order, with what each prints; … stands for anything in a line."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    found: list[tuple[str, str]] = []
    for block in blocks:
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = each.partition("\n")
            found.append((command, output))
    return found


def settings() -> dict[str, str]:
    (block,) = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
    lines = dict(line.split("=", 1) for line in block.splitlines())
    return {name: re.sub(r":(9092|8082)", ":0", value) for name, value in lines.items()}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_each_command_prints_what_the_page_shows() -> None:
    with broker_in_thread(settings()) as running:
        env = {**os.environ, "URL": f"http://{running.broker.listeners['HTTP']}", "no_proxy": "*"}
        for command, expected in commands():
            done = subprocess.run(
                ["bash", "-c", command], env=env, capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0 or done.returncode in WITH_ERRORS, (command, done)
            pattern = ".*".join(map(re.escape, expected.strip().split("…")))
            assert re.fullmatch(pattern, done.stdout.strip()), (command, done.stdout)


def test_the_page_names_each_setting() -> None:
    for key in declared_keys(keys):
        assert f"`{key.name}`" in PAGE
