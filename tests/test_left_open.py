"""A test that leaves a file or a socket open fails, and no other one does in its stead."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parent.parent
LEAKING = """
import socket

class Circle:
    def __init__(self, content):
        self.itself, self.content = self, content

def test_socket():
    Circle(socket.socket())

def test_innocent(tmp_path):
    (tmp_path / "x").write_text("closed")

def test_file(tmp_path):
    Circle((tmp_path / "x").open("w"))
"""


def test_the_test_that_left_it_fails(tmp_path: Path) -> None:
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    settings = f"--config-file={ROOT / 'pyproject.toml'}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, settings, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert re.findall(r"^ERROR .*::(\w+)", ended.stdout, re.MULTILINE) == ["test_socket", "test_file"], ended
