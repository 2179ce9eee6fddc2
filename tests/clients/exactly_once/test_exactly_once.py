"""Exactly once, with the workers and the broker killed at random.

`EXACTLY_ONCE_SECONDS` makes it last longer, `EXACTLY_ONCE_SEED` makes other things happen.
"""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

import pytest

from tests.clients.brokers import running_broker
from tests.clients.java_programs import java_command
from tests.peers import NEWEST_KAFKA

from .pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SECONDS = float(os.environ.get("EXACTLY_ONCE_SECONDS", "5"))
SEED = int(os.environ.get("EXACTLY_ONCE_SEED", "0"))
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}


def confluent_worker(words: Sequence[str]) -> Sequence[str]:
    return [sys.executable, "-m", "tests.clients.exactly_once.confluent_worker", *words]


def java_worker(words: Sequence[str]) -> Sequence[str]:
    return java_command("Worker", NEWEST_KAFKA, words)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(confluent_worker, id="confluent_kafka"),
        pytest.param(java_worker, id="java", marks=pytest.mark.long),
    ],
)
def test_each_input_comes_out_once(command: Callable[[Sequence[str]], Sequence[str]], tmp_path: Path) -> None:
    with running_broker(tmp_path, SETTINGS) as broker, Pipeline(broker, command, tmp_path) as pipeline:
        pipeline.suffer(SECONDS, random.Random(SEED))
        pipeline.finish()
        assert sorted(pipeline.output()) == sorted(pipeline.produced)
