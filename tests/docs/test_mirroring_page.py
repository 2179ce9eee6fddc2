"""docs/mirroring.md: its examples do what the page says, and its table of settings has all keys."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example
from tests.peers.ports import free_ports
from tidelog.kernel.config import declared_keys
from tidelog.kernel.config.tables import short_name
from tidelog.plugins.mirror import keys

PAGE = (DOCS / "mirroring.md").read_text()


@pytest.mark.parametrize("number", [0, 1], ids=["once", "broker"])
def test_the_examples_work(number: int, tmp_path: Path) -> None:
    run_example(at_free_ports(examples_of("mirroring.md")[number]), tmp_path)


def at_free_ports(example: Example) -> Example:
    """The example at other ports, which have five digits: columns are as wide as their contents."""
    first, second, *others = (f"127.0.0.1:{port}" for port in free_ports(4))
    text, prints = example.text, example.prints or ""
    for given, free in zip(("127.0.0.1:9094", "127.0.0.1:9095"), others, strict=True):
        text, prints = text.replace(given, free), prints.replace(given, free)
    text = text.replace("127.0.0.1:9092", first).replace("127.0.0.1:9093", second)
    text = re.sub(r"(topics create \w+)", rf"\1 --bootstrap-server {first}", text)
    prints = prints.replace("127.0.0.1:9092  ", f"{first}  ")
    prints = re.sub(r" {3,}(\d|copying|STATE)", r"...\1", prints)
    return attrs.evolve(example, text=text, prints=prints)


def test_the_table_of_settings_has_all_keys() -> None:
    table = PAGE.partition("## Settings")[2].partition("\n\n[")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z.]+)`", row)}
    assert named == {short_name(key) for key in declared_keys(keys)}
