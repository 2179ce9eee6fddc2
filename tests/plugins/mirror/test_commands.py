"""`tidelog mirror` and `tidelog mirrors`: what they print, and errors that name what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.kernel.cli.running import printed_json, tidelog
from tests.plugins.mirror.clusters import SETTINGS, produce, some_records
from tests.tables import for_each
from tidelog.plugins.client import BlockingClient, NewTopic, or_raise
from tidelog.plugins.mirror.statistics import MirrorStatistics
from tidelog.plugins.mirror.status import FILE_NAME


def test_mirror_copies_to_the_end_and_says_how_much(clusters: tuple[str, str]) -> None:
    source, target = clusters
    with BlockingClient(source, settings=SETTINGS) as client:
        or_raise(client.create_topics([NewTopic("orders", 1)]))
        produce(client, "orders", some_records("a", "b"))
    arguments = ("mirror", "--source", source, "--target", target, "--topics", "orders", "--until-end")
    done = tidelog(*arguments)
    assert (done.stdout, done.stderr) == ("mirror: copied 2 records in 1 topics (0.0 MB).\n", "")
    (again,) = printed_json(*arguments, "--json")
    assert (again["records"], again["lag"], again["problems"], again["state"]) == (0, 0, {}, "stopped")


@for_each(
    "words",
    [
        "mirror|No mirror is configured",
        "mirror --topics a|--topics needs --source",
        "mirror --source 127.0.0.1:1 a b|give one name at most",
        "mirror --set mirrors.us.bootstrap.servers=a:1 eu|There is no mirror 'eu'; configured are: us",
        "mirror --source nowhere|'nowhere' is no broker address",
        "mirror --source 127.0.0.1:1 --topics (|'(' is not a regular expression",
        "mirror --source a:1 --set mirrors.mirror.rename.pattern=a|needs both rename.pattern and",
        "mirror --source a:1 --set mirrors.mirror.partitions=some|is none of keep, hash",
        "mirror --source a:1 --set mirrors.mirror.topcs=a|did you mean mirrors.mirror.topics",
    ],
)
def test_mirror_names_what_is_wrong(words: str) -> None:
    command, _, expected = words.partition("|")
    done = tidelog(*command.split())
    assert done.returncode != 0
    assert expected in done.stderr


def test_mirrors_shows_what_the_mirrors_of_a_running_broker_do(tmp_path: Path) -> None:
    statistics = MirrorStatistics("us", "us:9092", "copying", 3, 9, last_error="refused", failures=2)
    statistics.problems["orders-1"] = "too large"
    statistics.committed(0.0, 500, 5, 20_000_000)
    content = {"pid": os.getpid(), "mirrors": [statistics.as_json(1.0)]}
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    done = tidelog("mirrors", "--set", f"log.dirs={tmp_path}")
    assert [line.split() for line in done.stdout.splitlines()[:2]] == [
        ["MIRROR", "SOURCE", "STATE", "TOPICS", "LAG", "RECORDS", "RECORDS/S", "MB/S"],
        ["us", "us:9092", "copying", "3", "0", "500", "50", "2.0"],
    ]
    assert done.stdout.splitlines()[2:] == ["Last of 2 errors of us: refused", "us: orders-1: too large"]
    assert printed_json("mirrors", "--json", "--set", f"log.dirs={tmp_path}") == content["mirrors"]


def test_mirrors_says_why_it_shows_nothing(tmp_path: Path) -> None:
    folder = f"log.dirs={tmp_path}"
    assert "No mirror is configured" in tidelog("mirrors", "--set", folder).stdout
    configured = ("--set", "mirrors.us.bootstrap.servers=us:9092")
    assert "No broker" in tidelog("mirrors", "--set", folder, *configured).stdout
