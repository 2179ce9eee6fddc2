"""docs/sources.md explains each source that the code and the documentation cite."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "sources.md"
CITING = ("kernel", "plugins", "testing", "tests", "benchmarks", "docs")
KIP = re.compile(r"KIP-\d+")


def pages_and_modules() -> list[Path]:
    return [
        path
        for folder in CITING
        for suffix in ("*.py", "*.md")
        for path in sorted((ROOT / folder).rglob(suffix))
        if path != PAGE
    ]


def test_every_kip_has_its_title() -> None:
    explained = set(re.findall(r"^\| (KIP-\d+) \| \S", PAGE.read_text(), re.MULTILINE))
    cited = {name for path in pages_and_modules() for name in KIP.findall(path.read_text())}
    assert cited <= explained


def test_no_title_is_left_of_a_kip_that_nothing_cites() -> None:
    rows = re.findall(r"^\| (KIP-\d+) \|", PAGE.read_text(), re.MULTILINE)
    cited = {name for path in pages_and_modules() for name in KIP.findall(path.read_text())}
    assert sorted(rows, key=lambda name: int(name.partition("-")[2])) == rows
    assert set(rows) <= cited
