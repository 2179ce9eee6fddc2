"""`--command-config`: commands over TLS, with Kafka's client keys."""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.docs.examples import DOCS
from tests.tls_certificates import authority, ca_file, client_entry, p12, tls_settings, written
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread
from tidelog.plugins.client_commands.command_config import BadCommandConfig, read_command_config
from tidelog.plugins.client_commands.consume.consume_command import command as consume
from tidelog.plugins.client_commands.produce.produce_command import command as produce
from tidelog.plugins.client_commands.topics.list_command import command as list_topics


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Generator[ThreadedBroker]:
    """A broker that requires certificates."""
    with broker_in_thread(tls_settings(folder, None, ssl_client_auth="required")) as running:
        yield running


def config(folder: Path, **values: str) -> Path:
    """A file with these keys; underscores stand for dots."""
    lines = [f"{name.replace('_', '.')}={value}" for name, value in values.items()]
    return Path(written(folder / "client.properties", "\n".join(lines).encode()))


def pem(folder: Path) -> Path:
    """Stores of the type PEM."""
    return config(
        folder,
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location=ca_file(folder),
        ssl_keystore_type="PEM",
        ssl_keystore_location=written(folder / "alice.pem", client_entry("alice").pem()),
    )


def p12_files(folder: Path) -> Path:
    """Stores of the type PKCS12, which Java also calls JKS."""
    own, trusted = p12(client_entry("alice"), "secret"), p12(None, "secret", authority("tests").entry.chain)
    return config(
        folder,
        security_protocol="SSL",
        ssl_truststore_type="PKCS12",
        ssl_truststore_location=written(folder / "trust.p12", trusted),
        ssl_truststore_password="secret",
        ssl_keystore_location=written(folder / "alice.p12", own),
        ssl_keystore_password="secret",
    )


@pytest.mark.parametrize("make", [pem, p12_files])
def test_commands_connect_with_the_keys_of_a_file(broker: ThreadedBroker, folder: Path, make: object) -> None:
    connect = ["-b", broker.bootstrap, "--command-config", str(make(folder))]  # type: ignore[operator]
    runner = CliRunner()
    assert runner.invoke(produce, ["t", "hello", *connect], catch_exceptions=False).exit_code == 0
    assert "t" in runner.invoke(list_topics, connect, catch_exceptions=False).output
    assert "hello" in runner.invoke(consume, ["t", *connect], catch_exceptions=False).output


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"group_id": "g"}, "group.id: commands have no part for it"),
        ({"zookeeper_connect": "a:1"}, "zookeeper.connect: commands have no part for it"),
        ({"security_protocol": "TLS"}, "security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"security_protocol": "SASL_SSL"}, "sasl.kerberos.service.name: GSSAPI, .* needs"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "secret"},
            "sasl_jaas_config is not of the form",
        ),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": "TLSv1"}, "'TLSv1' is none of TLSv1.2"),
        ({"config_providers": "env"}, "config.providers.env.class is not set to one of EnvVarConfigProvider"),
        (
            {
                "config_providers": "env",
                "config_providers_env_class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
                "sasl_jaas_config": "${env:NO_SUCH_VARIABLE}",
            },
            r"sasl.jaas.config: \$\{env:NO_SUCH_VARIABLE\} has no value",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "trust.jks"},
            "trust.jks is a store of the type JKS that is cut",
        ),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/no/such"}, "/no/such cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trust.jks").write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    with pytest.raises(BadCommandConfig, match=reason) as refused:
        read_command_config(config(tmp_path, **values))
    assert ": secret" not in str(refused.value)


def test_secrets_are_read_where_references_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = "org.apache.kafka.common.config.provider"
    monkeypatch.setenv("USER_OF_A_TEST", "alice")
    written(tmp_path / "secrets.properties", b"a=b\npassword=from file\n")
    written(tmp_path / "module", b"PlainLoginModule")
    path = config(
        tmp_path,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        config_providers="env,file,directory",
        config_providers_env_class=f"{classes}.EnvVarConfigProvider",
        config_providers_file_class=f"{classes}.FileConfigProvider",
        config_providers_directory_class=f"{classes}.DirectoryConfigProvider",
        sasl_jaas_config=f"${{directory:{tmp_path}:module}} required username=${{env:USER_OF_A_TEST}} "
        f'password="${{file:{tmp_path}/secrets.properties:password}}";',
    )
    security = read_command_config(path).security
    assert security.sasl_jaas_config == 'PlainLoginModule required username=alice password="from file";'
    assert "from file" not in repr(security)


FILES = dict(re.findall(r"```properties\n# (\S+)\n(.*?)```", (DOCS / "users.md").read_text(), re.DOTALL))
"""The files of the page, by their names."""


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("client.properties", "SCRAM-SHA-512"),
        ("oauth.properties", "OAUTHBEARER"),
        ("assertion.properties", "OAUTHBEARER"),
        ("kerberos.properties", "GSSAPI"),
    ],
)
def test_the_files_of_the_page_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mechanism: str
) -> None:
    if mechanism == "GSSAPI" and find_spec("gssapi") is None:
        pytest.skip('GSSAPI needs: pip install "tidelog[kerberos]"')
    for secret in ("ALICE_PASSWORD", "BILLING_SECRET"):
        monkeypatch.setenv(secret, "secret")
    text = FILES[name].replace("/etc/tidelog/ca.pem", ca_file(tmp_path))
    security = read_command_config(Path(written(tmp_path / name, text.encode()))).security
    assert (security.security_protocol, security.sasl_mechanism) == ("SASL_SSL", mechanism)
    assert "secret" not in repr(security)
