"""What an import really loads, in a fresh process: layers on paper are checked by `make layers`."""

from __future__ import annotations

import subprocess
import sys

import pytest

EVENT_LOOPS = {"asyncio", "trio"}
COMMAND_LINE = {"click", "rich"}
COMPRESSION = {"cramjam", "lz4", "zstandard"}

# Module → what it must not load. Spark's workers decode messages without an event loop; a plugin that only
# offers hooks costs no more than pluggy.
LIGHT = {
    "tidelog.kernel": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | {"attrs"},
    "tidelog.kernel.hookspecs": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | {"attrs"},
    "tidelog.kernel.partition": COMMAND_LINE | COMPRESSION,
    "tidelog.kernel.records": EVENT_LOOPS | COMMAND_LINE | COMPRESSION,
    "tidelog.plugins.protocol_kafka.codecs": EVENT_LOOPS | COMMAND_LINE | COMPRESSION,
    "tidelog.plugins.protocol_kafka.connection": COMMAND_LINE | COMPRESSION,
    "tidelog.plugins.protocol_kafka.messages": EVENT_LOOPS | COMMAND_LINE | COMPRESSION,
}


@pytest.mark.parametrize("module", LIGHT)
def test_an_import_loads_no_more_than_it_needs(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not LIGHT[module] & set(done.stdout.split())
