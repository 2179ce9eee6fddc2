"""Spark's own format `kafka`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from tests.interop.client import Client, DriverCommand
from tests.interop.scenarios import SCENARIOS
from tests.peers import find_kafka_format

_OWN: Final = "Spark has no call for it"
_LACKS: Final = {
    **{
        each.action: _OWN
        for each in SCENARIOS
        if each.section not in ("Produce", "Consume", "Groups", "Transactions")
    },
    **{
        each.action: "Spark keeps offsets in checkpoints of its own and joins no group"
        for each in SCENARIOS
        if each.section == "Groups"
    },
    **{each.action: "its writer has no transactions" for each in SCENARIOS if each.section == "Transactions"},
    "timestamps": "its records have the time of writing",
    "seek-end": _OWN,
}


def _start(bootstrap: str) -> DriverCommand:
    return DriverCommand.python("spark_driver.py", bootstrap, str(find_kafka_format()))


CLIENTS: Final = (Client(f"Spark {version('pyspark')}, format kafka", "Spark", _start, _LACKS),)
