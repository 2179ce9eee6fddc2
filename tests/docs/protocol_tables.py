"""`python -m tests.docs.protocol_tables` writes the tables in docs/protocol.md from the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from tests.docs import error_table
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.unserved import UNSERVED

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "protocol.md"
TESTS: Final = ROOT / "tests" / "plugins" / "protocol_kafka" / "apis"
KAFKA_VERSIONS: Final = TESTS.parent / "kafka_versions.txt"

BEGIN, END = "<!-- apis: written by `make docs` -->\n", "<!-- end of apis -->\n"

NOTES: Final = {
    0: "record batches (format 2); versions 0 to 2 also take message sets of formats 0 and 1, which are "
    "[converted](#message-sets)",
    1: "batches are converted to message sets for versions 0 to 3; [fetch sessions](#fetch-sessions)",
    2: "by timestamp and the special timestamps -1 to -6; no tiered storage",
    3: "creates missing topics when client and `auto.create.topics.enable` allow it, and returns "
    "UNKNOWN_TOPIC_OR_PARTITION for them",
    8: "version 0 stores offsets in the broker, too, not in ZooKeeper",
    9: "as OffsetCommit",
    10: "the leader of the partition of the state, once there is the internal topic; no share groups",
    15: "classic groups",
    17: "ILLEGAL_SASL_STATE on listeners without SASL; [security.md](security.md#sasl)",
    18: "the response to an unknown version is in version 0",
    21: "segments below the new log start offset are deleted; other records below it can no longer be read",
    22: "two-phase commits with `transaction.two.phase.commit.enable`; Kafka 4.4.0 serves version 6 with "
    "`unstable.api.versions.enable`",
    23: "an epoch begins with each start of the broker",
    24: "versions 4 and 5 are for brokers and tools",
    26: "the response is sent when the markers are written",
    29: "SECURITY_DISABLED without an authorizer that goes by access control entries, as in Kafka; the code "
    "0 closes the connection, another that stands for nothing matches no entry",
    30: "as DescribeAcls; a principal without a type (`:alice`) is INVALID_REQUEST, while Kafka stores it "
    "and then authorizes no request",
    31: "as DescribeAcls; a code that stands for nothing is INVALID_REQUEST",
    32: "topics, groups, client metrics and this broker; all but the keys that can be changed while the "
    "broker runs are read-only",
    33: "topics, groups, client metrics and this broker",
    36: "as SaslHandshake; tokens without a header after SaslHandshake 0",
    37: "INVALID_REQUEST for internal topics",
    38: "for clients that have logged in, and not by a token; [tokens.md](tokens.md)",
    39: "as CreateDelegationToken",
    40: "as CreateDelegationToken",
    41: "as CreateDelegationToken",
    42: "groups without members",
    43: "each partition has one replica, so there is nothing to elect",
    44: "topics, groups, client metrics and this broker",
    45: "to this broker only",
    46: "always empty",
    51: "users of SCRAM-SHA-256 and SCRAM-SHA-512",
    55: "this node, the only voter; it has no listener for controllers",
    66: "patterns in RE2's syntax",
    68: "the consumer protocol (KIP-848); regular expressions are RE2's and match no internal topics",
    71: "announced only with a plugin that receives client metrics, as in Kafka",
    72: "as GetTelemetrySubscriptions",
    74: "version 0 is ListClientMetricsResources",
    75: "at most `max.request.partition.size.limit` partitions in a response",
}
"""What the versions alone do not tell, by key."""


class KafkaVersions(NamedTuple):
    """An API of Kafka's brokers, with its versions in 3.9.1 and in 4.4.0; `-` where it is missing."""

    name: str
    older: str
    newest: str


def kafka_versions() -> dict[int, KafkaVersions]:
    """Return the APIs of Kafka's brokers by key."""
    lines = KAFKA_VERSIONS.read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {int(key): KafkaVersions(*row) for key, *row in rows}


def files_with_tests_of(key: int) -> list[str]:
    """Return the names of the test files that send requests of an API."""
    (constant,) = (name for name, value in vars(apis).items() if value is apis.APIS[key])
    named = re.compile(rf"\b{constant}\b")
    return sorted(path.name for path in TESTS.glob("test_*.py") if named.search(path.read_text()))


def tables() -> str:
    """Return both tables: the APIs that are served, and those that are not."""
    kafka = kafka_versions()
    nothing = KafkaVersions("", "-", "-")
    lines = [
        "| key | API | versions | Kafka 3.9.1 | Kafka 4.4.0 | needs | handler | tests | notes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for served in BUILT_IN:
        key, span, theirs = served.key, served.span, kafka.get(served.key, nothing)
        needs, module = ", ".join(map(str, served.needs)), apis.APIS[key].module
        tests = ", ".join(f"`{name}`" for name in files_with_tests_of(key))
        lines.append(
            f"| {key} | {served.name} | {span.low}-{span.high} | {theirs.older} | {theirs.newest} | {needs} "
            f"| `{module}.py` | {tests} | {NOTES.get(key, '')} |"
        )
    lines += [
        "",
        "APIs of Kafka's brokers that are not served:",
        "",
        "| key | API | Kafka 3.9.1 | Kafka 4.4.0 | reason |",
        "|---|---|---|---|---|",
    ]
    for key, unserved in sorted(UNSERVED.items()):
        theirs = kafka.get(key, nothing)
        lines.append(f"| {key} | {unserved.name} | {theirs.older} | {theirs.newest} | {unserved.reason} |")
    return "\n".join(lines) + "\n"


def with_tables(page: str) -> str:
    """Return the page with the tables as they should be."""
    page = _with(page, BEGIN, tables(), END)
    return _with(page, error_table.BEGIN, error_table.tables(), error_table.END)


def _with(page: str, begin: str, text: str, end: str) -> str:
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + text + end + after


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
