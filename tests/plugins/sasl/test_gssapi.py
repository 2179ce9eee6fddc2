"""GSSAPI with MIT's KDC: the contract of mechanisms, clients of C and Java, and what a broker has to have."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.peers import find_kafka
from tests.plugins.sasl.kerberos_realm import REALM, SERVICE, Realm, kerberos_realm
from tests.tables import for_each
from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.sasl import AuthenticationFailed, SaslContext, SaslMechanism
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread
from tidelog.kernel.testing.sasl import PEER, SECRETS, SaslMechanismConformance, Tokens
from tidelog.plugins.sasl.gssapi import Gssapi
from tidelog.plugins.sasl.kerberos_names import BadNameRule, NoShortName, ShortNames

pytest.importorskip("gssapi", reason='GSSAPI needs: pip install "tidelog[kerberos]"')
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Realm]:
    with kerberos_realm(tmp_path_factory.mktemp("kdc"), dict(SECRETS)) as running:
        yield running


def line(realm: Realm, principal: str = SERVICE) -> str:
    """The line of JAAS of the broker."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{realm.broker_keys}" principal="{principal}";'
    )


def mechanism(values: Mapping[str, object]) -> Gssapi:
    """The mechanism with these settings."""
    config, _ = configure(Sources().over(settings_from_mapping({"storage": "memory", **values})))
    return Gssapi(SaslContext(config, "SASL_PLAINTEXT", MetadataImage, wall_clock_ms))


class TestGssapi(SaslMechanismConformance):
    """It keeps the contract: a secret is the password at the KDC."""

    choice = b"\1\0\0\0"

    @pytest.fixture(autouse=True)
    def _realm(self, realm: Realm) -> None:
        self.values = {"sasl.jaas.config": line(realm)}

    def mechanism(self) -> SaslMechanism:
        return mechanism(self.values)

    def tokens(self, user: str, secret: str) -> Tokens:
        gss: Any = importlib.import_module("gssapi")
        try:
            name = gss.Name(f"{user}@{REALM}", gss.NameType.kerberos_principal)
            acquired = gss.raw.acquire_cred_with_password(name, secret.encode(), usage="initiate")
            service = gss.Name(SERVICE, gss.NameType.kerberos_principal)
            flags = gss.RequirementFlag.mutual_authentication | gss.RequirementFlag.replay_detection
            security = gss.SecurityContext(
                name=service, creds=gss.Credentials(base=acquired.creds), usage="initiate", flags=flags
            )
            token = security.step()
        except gss.exceptions.GSSError:
            # The KDC knows no such user and password, so that there is no ticket to show.
            return
        while not security.complete:
            token = security.step((yield token))
        offer = yield token or b""
        assert security.unwrap(offer).message == b"\1\0\0\0"
        yield security.wrap(self.choice + user.encode(), False).message


async def test_a_choice_that_is_changed_on_its_way_is_refused(realm: Realm) -> None:
    suite = TestGssapi()
    suite.values = {"sasl.jaas.config": line(realm)}
    exchange = suite.mechanism().start(PEER)
    client = suite.tokens("alice", SECRETS["alice"])
    token = next(client)
    for _ in range(2):
        answer = exchange.respond(token)
        assert not isinstance(answer, bytes | tuple)
        made = await answer
        assert isinstance(made, bytes)
        token = client.send(made)
    # What was wrapped for another choice: it is signed.
    answer = exchange.respond(token[:-1] + bytes((token[-1] ^ 1,)))
    assert not isinstance(answer, bytes | tuple)
    with pytest.raises(AuthenticationFailed) as raised:
        await answer
    assert raised.value.reason.startswith("Kerberos refuses the token: ")


@for_each(
    ("values", "problem"),
    [
        ({}, "GSSAPI needs listener.name.sasl_plaintext.gssapi.sasl.jaas.config=Krb5LoginModule"),
        ({"sasl.jaas.config": "M required keyTab=x principal=kafka;"}, "GSSAPI needs"),
        (
            {"sasl.jaas.config": 'M required keyTab="/no/such" principal="kafka/h@R";'},
            "/no/such cannot be read: No such file",
        ),
        (
            {
                "sasl.jaas.config": 'M required keyTab="/x" principal="kafka/h@R";',
                "sasl.kerberos.service.name": "k",
            },
            "sasl.kerberos.service.name=k is another service than that of kafka/h@R",
        ),
        (
            {
                "sasl.jaas.config": 'M required keyTab="/dev/null" principal="kafka/h@R";',
                "sasl.kerberos.principal.to.local.rules": "RULE:x",
            },
            "'RULE:x' is neither DEFAULT nor",
        ),
    ],
)
def test_what_a_broker_has_to_have(values: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        mechanism(values)


def test_a_key_table_without_the_key(realm: Realm) -> None:
    with pytest.raises(ConfigError, match=r"broker.keytab has no key of other/localhost@TIDE.EXAMPLE: "):
        mechanism({"sasl.jaas.config": line(realm, f"other/localhost@{REALM}")})


@for_each(
    ("rules", "principal", "expected"),
    [
        (["DEFAULT"], "alice@R", "alice"),
        (["DEFAULT"], "kafka/host@R", "kafka"),
        (["DEFAULT"], "alice@OTHER", None),
        (["DEFAULT"], "alice", "alice"),
        (["DEFAULT"], "a@b@R", None),
        (["DEFAULT"], "", None),
        ([], "alice@R", None),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "alice@OTHER", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "alice@R", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//"], "alice@OTHERS", None),
        (["RULE:[1:$1]/L"], "ALICE@R", "alice"),
        (["RULE:[1:$1]/U"], "alice@R", "ALICE"),
        (["RULE:[1:$1](ab.*)s/a/x/"], "abab@R", "xbab"),
        (["RULE:[1:$1](ab.*)s/a/x/g"], "abab@R", "xbxb"),
        (["RULE:[1:$1](a.*)s/(a)(b)/$2$1/"], "abc@R", "bac"),
        (["RULE:[2:$2](.*)s/\\..*//"], "host/a.b@R", "a"),
        (["RULE:[2:$1]"], "alice@R", None),
        (["RULE:[1:$1@$0]"], "alice@R", None),
        (["RULE:[1:$1](.*)s/.*//"], "alice@R", None),
    ],
)
def test_short_names(rules: list[str], principal: str, expected: str | None) -> None:
    names = ShortNames(rules, "R")
    if expected is None:
        with pytest.raises(NoShortName):
            names.short_name(principal)
    else:
        assert names.short_name(principal) == expected


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:[3:$1]", "RULE:[1:$2]", "RULE:[1:$1]((", "RULE:[1:$1](*)"]
)
def test_rules_that_are_malformed(rule: str) -> None:
    with pytest.raises(BadNameRule):
        ShortNames([rule], "R")


@pytest.fixture(scope="module")
def broker(realm: Realm) -> Generator[ThreadedBroker]:
    """A broker that takes tickets."""
    settings = {
        "listeners": "SASL_PLAINTEXT://localhost:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": line(realm),
        "connection.failed.authentication.delay.ms": 10,
    }
    with broker_in_thread(settings) as running:
        yield running


def address(broker: ThreadedBroker) -> str:
    """Where the broker is, by the name in its principal."""
    return f"localhost:{broker.bootstrap.rpartition(':')[2]}"


def test_kcat_gets_in(broker: ThreadedBroker, realm: Realm) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("no `kcat` is on the PATH")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": f"alice@{REALM}",
        "sasl.kerberos.keytab": str(realm.alice_keys),
    }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    ended = subprocess.run(
        [kcat, "-b", address(broker), *options, "-L"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "1 brokers" in ended.stdout


@pytest.mark.long
def test_kafkas_tools_get_in_and_see_why_they_do_not(
    broker: ThreadedBroker, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = find_kafka()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.configuration}")

    def run(principal: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            f'storeKey=true keyTab="{realm.alice_keys}" principal="{principal}@{REALM}";\n'
            "default.api.timeout.ms=5000\nrequest.timeout.ms=4000\n"
        )
        options = ["--bootstrap-server", address(broker), "--command-config", str(file)]
        return kafka.run_tool(TOPICS, [*options, "--create", "--topic", "t"], stdin="")

    made = run("alice")
    assert made.returncode == 0, made.stdout + made.stderr
    refused = run("carol")
    assert refused.returncode != 0
    assert "LoginException" in refused.stdout + refused.stderr


async def test_a_client_that_wants_a_layer_is_refused(realm: Realm) -> None:
    suite = TestGssapi()
    suite.values = {"sasl.jaas.config": line(realm)}
    suite.choice = b"\2\0\0\0"
    assert "invalid credentials" in str(await suite.log_in("alice", SECRETS["alice"]))
