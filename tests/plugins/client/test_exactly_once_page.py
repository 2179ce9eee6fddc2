"""docs/exactly-once.md: its examples work, and its program loses and doubles nothing though it is killed."""

from __future__ import annotations

import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path

import attrs

from tests.deadlines import DEADLINE_S, wait_until
from tests.docs.examples import examples_of, run_example_on
from tests.kernel.cli.running import clean_environment
from tests.peers import running_tidelog
from tests.plugins.client_commands.piped import Shell
from tidelog.client import Admin, Consumer, NewTopic, Producer, TopicPartition

ADDRESS = "127.0.0.1:9092"
PROGRAM, *OTHERS = examples_of("exactly-once.md")
RECORDS = 1000
KILLS = 3


def test_the_program_has_twenty_lines() -> None:
    assert PROGRAM.file_name == "shout.py"
    lines = [line for line in PROGRAM.text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 20


def test_the_examples_work(tmp_path: Path) -> None:
    with running_tidelog(tmp_path / "broker") as broker:
        for example in (PROGRAM, *OTHERS):
            there = attrs.evolve(example, text=example.text.replace(ADDRESS, broker.bootstrap))
            run_example_on(there, broker.bootstrap, tmp_path)


@attrs.frozen
class Shouting:
    """The program of the page with topics and names of its own."""

    bootstrap: str
    folder: Path
    name: str = attrs.field(factory=lambda: uuid.uuid4().hex[:12])

    def start(self) -> subprocess.Popen[bytes]:
        text = PROGRAM.text.replace(ADDRESS, self.bootstrap)
        for word in ("orders", "shouted", "shouters"):
            text = text.replace(f'"{word}', f'"{word}-{self.name}')
        # In small steps, so that it is killed between many transactions.
        (self.folder / "shout.py").write_text(text.replace("**reading", "max_poll_records=7, **reading"))
        return subprocess.Popen(
            [sys.executable, "shout.py"], cwd=self.folder, env=clean_environment(), stderr=subprocess.PIPE
        )

    def has_written(self, enough: int) -> bool:
        return self.written() > enough

    def written(self) -> int:
        """How far the topic of results is, with the markers of transactions."""
        place = TopicPartition(f"shouted-{self.name}", 0)
        with Consumer(self.bootstrap) as consumer:
            return consumer.end_offsets([place])[place]


def test_each_record_is_written_once_though_the_program_is_killed(real_broker: str, tmp_path: Path) -> None:
    shouting = Shouting(real_broker, tmp_path)
    with Admin(real_broker) as admin:
        admin.create_topics([NewTopic(f"{word}-{shouting.name}", 1) for word in ("orders", "shouted")])
    with Producer(real_broker) as producer:
        for number in range(RECORDS):
            producer.send(f"orders-{shouting.name}", b"dish %d" % number)
    for kill in range(KILLS):
        process = shouting.start()
        try:
            # It may have written all before anyone looked.
            enough = min(shouting.written() + 20 + kill, RECORDS)
            wait_until(partial(shouting.has_written, enough), "it has written more")
        finally:
            process.kill()
            _, complained = process.communicate()
        assert complained == b""
    process = shouting.start()
    try:
        shell = Shell(real_broker)
        printed = shell.consume(
            *(f"shouted-{shouting.name}", "--isolation-level", "read_committed"),
            *("--follow", "-n", str(RECORDS)),
        )
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)
    assert printed.splitlines() == [b"DISH %d" % number for number in range(RECORDS)]
    # Nothing follows.
    whole = shell.consume(f"shouted-{shouting.name}", "--isolation-level", "read_committed")
    assert whole == printed
