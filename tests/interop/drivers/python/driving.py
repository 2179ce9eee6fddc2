"""Loop of the drivers in Python, and the records that all drivers know.

A line on stdin is an action, its argument, a topic and a group, with tabs between; the answer is a line of
JSON.
Old releases of clients need old Pythons at times, so nothing here is newer than Python 3.8.
"""

import json
import os
import sys
import traceback
from typing import Any, Dict, List, Optional  # noqa: UP035 (see above)

COUNT = 10
START_MS = 1_700_000_000_000
STEP_MS = 1000
MEGABYTE = 1_000_000
WAIT_S = 20.0
PASSED = 5
"""What the group has read when a transaction sends its offsets."""
HEADERS = [("trace", b"1"), ("trace", b"2"), ("empty", b"")]

Answer = Dict[str, Any]  # noqa: UP006


def key(number: int) -> bytes:
    """Return the key of a record."""
    return b"key-%d" % number


def value(number: int) -> bytes:
    """Return the value of a record, which compresses well."""
    return b"value-%d;" % number * 20


def timestamp_ms(number: int) -> int:
    """Return the timestamp of a record."""
    return START_MS + number * STEP_MS


def text(content: Optional[bytes]) -> Optional[str]:  # noqa: UP045 (see above)
    """Return bytes as a text for JSON."""
    return None if content is None else content.decode()


def row(offset: int, key: Optional[bytes], value: Optional[bytes]) -> List[Any]:  # noqa: UP006, UP045
    """Return a record as the answers have it."""
    return [offset, text(key), text(value)]


def drive(driver: object) -> None:
    """Answer each line with what the driver's method of the action returns, until the input ends."""
    # What a client prints by itself must not get among the answers.
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    for line in sys.stdin:
        action, argument, topic, group = line.rstrip("\n").split("\t")
        method = getattr(driver, action.replace("-", "_"), None)
        answer = {"unknown": action} if method is None else _answer(method, argument, topic, group)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # A client whose threads are stuck must not keep the process.
    os._exit(0)


def _answer(method: Any, argument: str, topic: str, group: str) -> Answer:
    try:
        return method(topic, argument or group) or {}
    except BaseException as error:
        traceback.print_exc()
        return {"error": "%s: %s" % (type(error).__name__, error)}  # noqa: UP031 (see above)
