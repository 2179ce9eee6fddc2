"""docs/spark-options.md has every option of the format `tidelog`, and no other ones."""

from __future__ import annotations

import re

import pytest

from tests.docs.examples import DOCS
from tidelog.plugins.spark_sink.kafka_keys import (
    CONNECTION_OPTIONS,
    CONSUMER_KEYS,
    CONSUMER_OPTIONS,
    PRODUCER_KEYS,
    PRODUCER_OPTIONS,
)
from tidelog.plugins.spark_sink.option_values import ClientKeys, InvalidOption
from tidelog.plugins.spark_sink.source.options import NAMES, parse_options
from tidelog.plugins.spark_sink.writer.options import NAMES as WRITER_NAMES
from tidelog.plugins.spark_sink.writer.options import parse_writer_options

PAGE = (DOCS / "spark-options.md").read_text()
PARSERS = {"Reading": parse_options, "Writing": parse_writer_options}
KEYS = {"Reading": CONSUMER_KEYS, "Writing": PRODUCER_KEYS}
SECURITY = {"kafka.security.providers"}


def names(text: str) -> set[str]:
    """The keys of Kafka's clients in a text."""
    return set(re.findall(r"`?(kafka\.[\w.*]+)`?", text))


def rows(heading: str) -> list[list[str]]:
    """Spark's name, tidelog's name and the difference, of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith(("| `", "| |"))]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(("heading", "options"), [("Reading", NAMES), ("Writing", WRITER_NAMES)])
def test_the_page_has_every_option(heading: str, options: tuple[str, ...]) -> None:
    ours = [cells[1] for cells in rows(heading) if cells[1]]
    assert sorted(ours) == sorted(options)


@pytest.mark.parametrize(("heading", "keys"), KEYS.items())
def test_the_page_says_refused_where_an_option_is_refused(heading: str, keys: ClientKeys) -> None:
    """With the reason, not with the nearest name."""
    refused = {name for cells in rows(heading) if cells[2].startswith("refused") for name in names(cells[0])}
    assert {name for name in refused if "*" not in name} - SECURITY == set(keys.refused)
    for name in refused:
        base = {"kafka.bootstrap.servers": "host:9092"}
        given = {**base, **({"subscribe": "t"} if heading == "Reading" else {}), name.replace("*", "x"): "x"}
        with pytest.raises(InvalidOption, match=r"the option kafka\.\S+ is refused: "):
            PARSERS[heading](given, streaming=True)


def test_the_page_lists_what_has_no_effect() -> None:
    listed = names(PAGE.partition("\n## Accepted without effect\n")[2].partition("\n## ")[0])
    own = [set(keys.without_effect) for keys in KEYS.values()]
    options = {*CONNECTION_OPTIONS, *CONSUMER_OPTIONS, *PRODUCER_OPTIONS}
    refused = {name for keys in KEYS.values() for name in keys.refused}
    assert listed == set.union(*own) - options - refused
