"""docs/spark-options.md has every option of the format `tidelog`, and no other ones."""

from __future__ import annotations

import pytest

from tests.docs.examples import DOCS
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.options import NAMES, parse_options
from tidelog.plugins.spark_sink.writer.options import NAMES as WRITER_NAMES
from tidelog.plugins.spark_sink.writer.options import parse_writer_options

PAGE = (DOCS / "spark-options.md").read_text()
PARSERS = {"Reading": parse_options, "Writing": parse_writer_options}


def rows(heading: str) -> list[list[str]]:
    """Spark's name, tidelog's name and the difference, of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith(("| `", "| |"))]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(("heading", "names"), [("Reading", NAMES), ("Writing", WRITER_NAMES)])
def test_the_page_has_every_option(heading: str, names: tuple[str, ...]) -> None:
    ours = [cells[1] for cells in rows(heading) if cells[1]]
    assert sorted(ours) == sorted(names)


@pytest.mark.parametrize("heading", PARSERS)
def test_the_page_says_refused_where_an_option_is_refused(heading: str) -> None:
    """With the advice of its own, not with the nearest name."""
    refused = [cells[0] for cells in rows(heading) if cells[2].startswith("refused")]
    assert len(refused) >= 4
    for name in refused:
        given = {"kafka.bootstrap.servers": "host:9092", "subscribe": "t", name: "x"}
        given = given if heading == "Reading" else {"kafka.bootstrap.servers": "host:9092", name: "x"}
        with pytest.raises(InvalidOption, match=rf"the option {name} has no meaning here: "):
            PARSERS[heading](given, streaming=True)
