"""docs/protocol.md lists what ApiVersions tells."""

from __future__ import annotations

import re
from pathlib import Path

from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.protocol_kafka.routes import SERVED

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"


def test_the_page_lists_the_served_versions() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|", PAGE.read_text(), re.MULTILINE)
    listed = {int(key): (name, int(low), int(high)) for key, name, low, high in rows}
    assert listed == {
        key: (APIS[key].name, served.min_version, served.max_version) for key, served in SERVED.items()
    }
