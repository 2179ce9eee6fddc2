"""`tidelog quotas` at tidelog and at Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import uuid
from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.kernel.cli.running import tidelog_in_process


def run(bootstrap: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return tidelog_in_process("quotas", command, "-b", bootstrap, *arguments)


def shown(bootstrap: str, command: str, *arguments: str) -> list[dict[str, Any]]:
    done = run(bootstrap, command, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_quotas_are_set_listed_described_and_deleted(real_broker: str) -> None:
    user = f"user-{uuid.uuid4().hex[:12]}"
    one = {"entity": {"user": user}, "quotas": {"consumer_byte_rate": 2e6, "producer_byte_rate": 1e6}}
    both = {"entity": {"user": user, "client-id": None}, "quotas": {"request_percentage": 12.5}}
    rates = ("consumer_byte_rate=2000000", "producer_byte_rate=1e6")
    assert shown(real_broker, "set", "--user", user, *rates) == [one]
    assert shown(real_broker, "set", "--user", user, "--default-client-id", "request_percentage=12.5") == [
        both
    ]
    # Kafka applies what it has committed a moment later.
    wait_until(lambda: shown(real_broker, "list", "--user", user) == [one, both], "both quotas")
    assert shown(real_broker, "describe", "--user", user) == [one]
    assert shown(real_broker, "describe", "--user", user, "--default-client-id") == [both]
    assert shown(real_broker, "delete", "--user", user, "consumer_byte_rate", "no_such") == [
        {"entity": {"user": user}, "quotas": {"consumer_byte_rate": 2e6}}
    ]
    left = {"entity": {"user": user}, "quotas": {"producer_byte_rate": 1e6}}
    wait_until(lambda: shown(real_broker, "list", "--user", user) == [left, both], "one quota less")
    assert shown(real_broker, "delete", "--user", user) == [left]
    assert shown(real_broker, "delete", "--user", user, "--default-client-id") == [both]
    wait_until(lambda: shown(real_broker, "list", "--user", user) == [], "no quotas")
    nothing = run(real_broker, "delete", "--user", user)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "There are no such quotas.\n")


def test_quotas_of_addresses_and_defaults(real_broker: str) -> None:
    assert shown(real_broker, "set", "--default-ip", "connection_creation_rate=100000") == [
        {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 100000.0}}
    ]
    wait_until(lambda: shown(real_broker, "list", "--default-ip") != [], "the quota")
    shown(real_broker, "delete", "--default-ip")


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (("set", "producer_byte_rate=1"), "Say for whom: --user", 2),
        (("set", "--user", "a", "producer_byte_rate"), "is not of the form KEY=VALUE", 2),
        (("set", "--user", "a", "producer_byte_rate=fast"), "producer_byte_rate=fast is no number", 2),
        (("set", "--user", "a", "no_such_quota=1"), "A quota was refused: ", 1),
        (("set", "--user", "a", "producer_byte_rate=-1"), "A quota was refused: ", 1),
        (("set", "--user", "a", "--default-user", "producer_byte_rate=1"), "not both", 2),
        (("set", "--user", "a", "--ip", "192.0.2.1", "producer_byte_rate=1"), "--ip alone", 2),
        (("describe",), "Say for whom: --user", 2),
    ],
)
def test_what_cannot_be_is_an_error(
    real_broker: str, arguments: tuple[str, ...], sentence: str, code: int
) -> None:
    done = run(real_broker, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
