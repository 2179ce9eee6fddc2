"""`tidelog load` in this process: with the session of the tests, where it needs one."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tests.plugins.spark_sink.queries import Topic
from tidelog.plugins.spark_sink.load.command import load


def arguments(topic: Topic, target: Path, *more: str) -> list[str]:
    """The arguments that load a topic."""
    return [topic.name, "--into", str(target), "--bootstrap-server", topic.bootstrap, *more]


def run_load(topic: Topic, target: Path, *more: str) -> dict[str, Any]:
    """Load a topic; its summary."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        load.main([*arguments(topic, target, *more), "--json"], standalone_mode=False)
    summary: dict[str, Any] = json.loads(printed.getvalue())
    return summary
