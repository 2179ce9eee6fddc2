from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import find_kafka
from tests.peers.tool_process import ToolProcess, ToolProcessEndedError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Answers as ToolProcess.java: its process id and the words, or not at all.
PROGRAM = """
import os, sys, time
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    if words[0] == "end":
        sys.exit()
    if words[0] == "hang":
        time.sleep(1000)
    output, errors = f"{os.getpid()}", f"{words}"
    print(7, len(output), len(errors))
    print(output + errors, end="", flush=True)
"""
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture
def process() -> Iterator[ToolProcess]:
    process = ToolProcess([sys.executable, "-c", PROGRAM])
    yield process
    process.end()


def test_run_has_one_process_for_all_tools_until_it_ends(process: ToolProcess) -> None:
    first, second = (process.run(["tool", argument], DEADLINE_S) for argument in ("", "a b"))
    assert (first.returncode, first.stderr, second.stderr) == (7, "['tool', '']", "['tool', 'a b']")
    assert first.stdout == second.stdout
    with pytest.raises(ToolProcessEndedError, match="end"):
        process.run(["end"], DEADLINE_S)
    assert process.run(["tool"], DEADLINE_S).stdout != first.stdout


def test_run_gives_up_what_takes_too_long_and_goes_on_with_another_process(process: ToolProcess) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        process.run(["hang"], 0.01)
    assert process.run(["tool"], DEADLINE_S).returncode == 7


def test_run_tool_prints_and_ends_alike_in_a_shared_jvm_and_in_its_own() -> None:
    kafka = find_kafka()
    for words in ([TOPICS, "--version"], [TOPICS, "--bogus"]):
        shared, alone = kafka.run_tool(words[0], words[1:]), kafka.run_tool(words[0], words[1:], stdin="")
        assert (shared.returncode, shared.stdout) == (alone.returncode, alone.stdout), words
        # Then a stack trace, in which the program that ran the tool is seen.
        assert shared.stderr.partition("\n\tat")[0] == alone.stderr.partition("\n\tat")[0], words
    # It had its own: what ends the shared one, or is not there, is as without it.
    assert "ClassNotFoundException" in kafka.run_tool("no.such.Tool", []).stderr
