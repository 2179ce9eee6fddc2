"""`tidelog users`: at tidelog and at Apache Kafka, over the login that they are about."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator

import pytest

from tests.kernel.cli.running import tidelog_in_process
from tests.peers import run_kafka_tool
from tests.secured_brokers import PASSWORD, USER, SecuredBroker, secured_kafka, secured_tidelog
from tests.tls_certificates import written
from tidelog.client import Admin
from tidelog.plugins.client.errors import AuthenticationRefused

CONFIGS = "org.apache.kafka.tools.ConfigCommand"


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[SecuredBroker]:
    """Each broker."""
    run = secured_tidelog if request.param == "tidelog" else secured_kafka
    with run(tmp_path_factory.mktemp(request.param)) as running:
        yield running


def run(broker: SecuredBroker, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    connect = ("-b", broker.bootstrap, "--command-config", broker.properties())
    return tidelog_in_process("users", command, *connect, *arguments)


def listed(broker: SecuredBroker, *names: str) -> list[tuple[str, str, int]]:
    shown = json.loads(run(broker, "list", *names, "--json").stdout)
    return [(each["user"], each["mechanism"], each["iterations"]) for each in shown]


def can_log_in(broker: SecuredBroker, user: str, password: str, mechanism: str) -> bool:
    options = {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    ca = broker.keys()["ssl.truststore.location"]
    with Admin(broker.bootstrap, security_protocol="SASL_SSL", ssl_cafile=ca, **options) as admin:  # type: ignore[arg-type]
        try:
            admin.list_topics()
        except AuthenticationRefused:
            return False
    return True


def test_a_user_is_added_changed_and_deleted(broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_OF_A_TEST", "first, with=signs")
    added = run(broker, "add", "carol", "--password-env", "PASSWORD_OF_A_TEST")
    assert (added.returncode, added.stderr) == (0, "")
    both = [("carol", "SCRAM-SHA-256", 4096), ("carol", "SCRAM-SHA-512", 4096)]
    assert listed(broker, "carol", "nobody") == both
    assert all(can_log_in(broker, "carol", "first, with=signs", mechanism) for _, mechanism, _ in both)
    file = written(broker.folder / "carol.txt", b"second\nnot this\n")
    again = run(broker, "add", "carol", "--password-file", file)
    assert (again.returncode, again.stdout) == (1, "")
    assert "There is a user 'carol' already. `tidelog users change`" in again.stderr
    assert run(broker, "change", "carol", "--password-file", file, "--iterations", "8192").returncode == 0
    assert listed(broker, "carol") == [(*each[:2], 8192) for each in both]
    assert can_log_in(broker, "carol", "second", "SCRAM-SHA-256")
    assert not can_log_in(broker, "carol", "first, with=signs", "SCRAM-SHA-256")
    assert run(broker, "delete", "carol", "--mechanism", "SCRAM-SHA-256").returncode == 0
    assert not can_log_in(broker, "carol", "second", "SCRAM-SHA-256")
    assert can_log_in(broker, "carol", "second", "SCRAM-SHA-512")
    assert run(broker, "delete", "carol").returncode == 0
    gone = run(broker, "delete", "carol")
    assert (gone.returncode, "There is no user 'carol'" in gone.stderr) == (1, True)
    assert {each[0] for each in listed(broker)} == {USER}


def test_kafkas_own_tool_lists_and_sets_the_same_users(broker: SecuredBroker) -> None:
    connect = ["--bootstrap-server", broker.bootstrap, "--command-config", broker.properties()]
    change = ["--alter", "--entity-type", "users", "--entity-name", "dave"]
    made = run_kafka_tool(CONFIGS, [*connect, *change, "--add-config", "SCRAM-SHA-256=[password=tool]"])
    assert made.returncode == 0, made.stdout + made.stderr
    assert listed(broker, "dave") == [("dave", "SCRAM-SHA-256", 4096)]
    assert can_log_in(broker, "dave", "tool", "SCRAM-SHA-256")
    described = run_kafka_tool(
        CONFIGS, [*connect, "--describe", "--entity-type", "users", "--entity-name", USER]
    )
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert f"{mechanism}=iterations=4096" in described.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (("add", "erin"), "There is no terminal to ask for the password at", 2),
        (
            ("add", "erin", "--password-env", "NO_SUCH_VARIABLE"),
            "There is no password in NO_SUCH_VARIABLE",
            1,
        ),
        (("add", "erin", "--password-env", "A", "--password-file", "/dev/null"), "not both", 2),
        (("add", "erin", "--password-file", "/dev/null"), "There is no password in /dev/null", 1),
        (("change", "erin", "--password-env", "A"), "There is no user 'erin'", 1),
        (("add", "erin", "--password", "secret"), "No such option", 2),
        (("add", "erin", "--password-env", "A", "--iterations", "1"), "4096", 2),
    ],
)
def test_what_cannot_be_is_an_error(
    broker: SecuredBroker, arguments: tuple[str, ...], sentence: str, code: int
) -> None:
    done = run(broker, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr


def test_a_command_that_may_not_log_in_says_so(broker: SecuredBroker) -> None:
    wrong = broker.properties(sasl_jaas_config=broker.keys()["sasl.jaas.config"].replace("correct", "false"))
    done = tidelog_in_process("users", "list", "-b", broker.bootstrap, "--command-config", wrong)
    assert done.returncode == 1
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in done.stderr
    assert "horse" not in done.stderr
    assert PASSWORD not in done.stderr
