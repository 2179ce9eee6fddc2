"""`tidelog tokens` and Kafka's own tool: at tidelog and at Apache Kafka, over TLS and SCRAM."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.deadlines import wait_until
from tests.kernel.cli.running import tidelog_in_process
from tests.peers import run_kafka_tool
from tests.secured_brokers import USER, SecuredBroker, secured_kafka, secured_tidelog
from tidelog.client import Admin, AsyncAdmin
from tidelog.plugins.client.errors import AuthenticationRefused, ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
ALICE = f"User:{USER}"
DAY_MS = 86_400_000
LOGIN = {"sasl_mechanism": "SCRAM-SHA-256"}
SETTINGS = {"delegation_token_secret_key": "of the brokers"}


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[SecuredBroker]:
    """Each broker."""
    run = secured_tidelog if request.param == "tidelog" else secured_kafka
    with run(tmp_path_factory.mktemp(request.param), **SETTINGS) as running:
        yield running


def run(broker: SecuredBroker, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    connect = ("-b", broker.bootstrap, "--command-config", broker.properties())
    return tidelog_in_process("tokens", command, *connect, *arguments)


def listed(broker: SecuredBroker, *principals: str) -> dict[str, dict[str, object]]:
    done = run(broker, "list", *principals, "--json")
    assert done.returncode == 0, done.stderr
    return {each["id"]: each for each in json.loads(done.stdout)}


def wait_until_seen(broker: SecuredBroker, token_id: str, *, there: bool = True) -> None:
    """Kafka's broker has what its controller has decided a little later."""
    with admin_of(broker, **LOGIN, sasl_jaas_config=broker.keys()["sasl.jaas.config"]) as admin:

        def is_seen() -> bool:
            return there is (token_id in [each.token_id for each in admin.describe_delegation_tokens()])

        wait_until(is_seen, f"the token {token_id}")


def admin_of(broker: SecuredBroker, **keys: str) -> Admin:
    ca = broker.keys()["ssl.truststore.location"]
    return Admin(broker.bootstrap, security_protocol="SASL_SSL", ssl_cafile=ca, **keys)  # type: ignore[arg-type]


def can_log_in(broker: SecuredBroker, mechanism: str, line: str) -> bool:
    with admin_of(broker, sasl_mechanism=mechanism, sasl_jaas_config=line) as admin:
        try:
            admin.list_topics()
        except AuthenticationRefused:
            return False
    return True


def by_token(token_id: str, password: str) -> str:
    return f'ScramLoginModule required username="{token_id}" password="{password}" tokenauth="true";'


def test_a_token_is_created_listed_renewed_and_expired(broker: SecuredBroker) -> None:
    created = run(broker, "create", "--renewer", "User:bob", "--lifetime", "2d", "--json")
    assert (created.returncode, created.stderr) == (0, "")
    token = json.loads(created.stdout)
    token_id = token["id"]
    wait_until_seen(broker, token_id)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert can_log_in(broker, mechanism, by_token(token_id, token["password"]))
        assert not can_log_in(broker, mechanism, by_token(token_id, "wrong"))
    found = listed(broker, ALICE)[token_id]
    assert (found["owner"], found["requester"], found["renewers"]) == (ALICE, ALICE, ["User:bob"])
    assert int(str(found["max_ms"])) - int(str(found["issued_ms"])) == 2 * DAY_MS
    assert "password" not in found
    renewed = run(broker, "renew", token_id, "--period", "1h")
    assert re.fullmatch(rf"{re.escape(token_id)} expires at \S+Z\n", renewed.stdout), renewed.stderr
    wait_until(
        lambda: int(str(listed(broker)[token_id]["expires_ms"])) < int(str(found["expires_ms"])),
        "the renewed token",
    )
    assert run(broker, "expire", token_id).stdout == f"{token_id} has expired\n"
    wait_until_seen(broker, token_id, there=False)
    assert not can_log_in(broker, "SCRAM-SHA-256", by_token(token_id, token["password"]))
    gone = run(broker, "renew", token_id)
    assert (gone.returncode, f"There is no token '{token_id}'" in gone.stderr) == (1, True)


def test_create_writes_the_keys_of_a_client_that_only_the_owner_reads(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    file = tmp_path / "job.properties"
    done = run(broker, "create", "--to", str(file))
    assert (done.returncode, "password" in done.stdout) == (0, False), done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = run(broker, "create", "--to", str(file))
    assert (again.returncode, "There is a file" in again.stderr) == (1, True)
    keys = dict(line.split("=", 1) for line in file.read_text().splitlines())
    wait_until_seen(broker, done.stdout.split()[1])
    assert can_log_in(broker, keys["sasl.mechanism"], keys["sasl.jaas.config"])
    connect = broker.properties(
        sasl_mechanism=keys["sasl.mechanism"], sasl_jaas_config=keys["sasl.jaas.config"]
    )
    refused = tidelog_in_process("tokens", "list", "-b", broker.bootstrap, "--command-config", connect)
    assert (refused.returncode, "and not by a token" in refused.stderr) == (1, True)


def test_kafkas_own_tool_creates_renews_describes_and_expires_tokens(broker: SecuredBroker) -> None:
    connect = ["--bootstrap-server", broker.bootstrap, "--command-config", broker.properties()]

    def tool(*arguments: str) -> str:
        done = run_kafka_tool(TOOL, [*connect, *arguments])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    created = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, hmac = re.search(r"^(\S{22})\s+(\S{86}==)\s+User:alice", created, re.MULTILINE).groups()  # type: ignore[union-attr]
    wait_until_seen(broker, token_id)
    assert listed(broker)[token_id]["renewers"] == ["User:bob"]
    assert can_log_in(broker, "SCRAM-SHA-512", by_token(token_id, hmac))
    assert "Completed renew operation" in tool("--renew", "--renew-time-period", "3600000", "--hmac", hmac)
    assert token_id in tool("--describe", "--owner-principal", "User:alice")
    assert "Completed expire operation" in tool("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    wait_until_seen(broker, token_id, there=False)


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (("create", "--owner", "alice"), "'alice' is no principal such as User:alice", 1),
        (("create", "--renewer", "Group:g"), "renewed by users only", 1),
        (("create", "--lifetime", "soon"), "'soon' is no duration", 2),
        (("expire", "no-such-token"), "There is no token 'no-such-token'", 1),
    ],
)
def test_what_cannot_be_is_an_error(
    broker: SecuredBroker, arguments: tuple[str, ...], sentence: str, code: int
) -> None:
    done = run(broker, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr


async def test_admin_clients_have_the_operations(broker: SecuredBroker) -> None:
    keys = {**LOGIN, "sasl_jaas_config": broker.keys()["sasl.jaas.config"]}
    with admin_of(broker, **keys) as admin:
        token = admin.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=DAY_MS)
        assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, ("User:bob",))
        assert token.password not in repr(token)
        assert token.max_ms - token.issued_ms == DAY_MS
        with pytest.raises(ErrorResponse) as raised:
            admin.expire_delegation_token(b"unknown")
        assert raised.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    wait_until_seen(broker, token.token_id)
    ca = broker.keys()["ssl.truststore.location"]
    options: dict[str, str] = {"security_protocol": "SASL_SSL", "ssl_cafile": ca, **keys}
    async with AsyncAdmin(broker.bootstrap, **options) as admin:  # type: ignore[arg-type]
        renewed = await admin.renew_delegation_token(token.hmac, 60_000)
        assert renewed < token.expires_ms
        described = await admin.describe_delegation_tokens([ALICE])
        assert token.token_id in [each.token_id for each in described]
        await admin.expire_delegation_token(token.hmac)


def test_without_tokens_the_command_says_what_they_need(broker: SecuredBroker) -> None:
    done = tidelog_in_process("tokens", "create", "-b", broker.plain)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Tokens are requested by clients that have logged in" in done.stderr
