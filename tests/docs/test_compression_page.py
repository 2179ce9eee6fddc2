"""docs/compression.md: its command prints what the page says, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example
from tests.kernel.config.bundle import BUNDLE
from tidelog.plugins.compression import kafka_codecs

EXAMPLES = examples_of("compression.md")
PAGE = (DOCS / "compression.md").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_example_works(example: Example, tmp_path: Path) -> None:
    run_example(example, tmp_path)


def test_the_table_has_the_codecs_of_the_plugin() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", PAGE, flags=re.MULTILINE)
    assert rows == [(codec.name, str(codec.id)) for codec in kafka_codecs()]


def test_the_keys_of_the_page_are_keys_of_topics_and_of_the_broker() -> None:
    names = re.findall(r"^\| `(compression\.[a-z0-9.]+)` \|", PAGE, flags=re.MULTILINE)
    assert len(names) == 4
    for name in names:
        topic_key, broker_key = BUNDLE.find(name, "topic"), BUNDLE.find(name, "broker")
        assert topic_key is not None
        assert broker_key is not None
        assert topic_key.broker_defaults[0].key.name == name
        assert broker_key.dynamic
