"""kcat, and its librdkafka."""

from __future__ import annotations

import shutil
from typing import Final

from tests.interop.client import Client, DriverCommand
from tests.peers import PeerUnavailableError

_ADMIN: Final = (
    "create-topic",
    "add-partitions",
    "describe-configs",
    "alter-configs",
    "delete-records",
    "delete-topic",
    "describe-acls",
    "list-groups",
    "describe-group",
    "list-group-offsets",
    "delete-group",
)
_LACKS: Final = {
    **dict.fromkeys(_ADMIN, "no admin calls"),
    "timestamps": "its records have the time of sending",
    "commit": "offsets are committed by the group's consumer only",
    "group-share": "a member does not print its assignment in a form that programs read",
    "cooperative": "a member does not print its assignment in a form that programs read",
    "consumer-protocol": "its librdkafka is older",
    **dict.fromkeys(("txn-commit", "txn-abort", "txn-offsets", "txn-fence"), "no option for transactions"),
}


def _start(bootstrap: str) -> DriverCommand:
    program = shutil.which("kcat")
    if program is None:
        raise PeerUnavailableError("kcat", "no `kcat` is on the PATH; install Debian's package kcat")
    return DriverCommand.python("kcat_driver.py", bootstrap, program)


CLIENTS: Final = (Client("kcat", "kcat", _start, _LACKS),)
