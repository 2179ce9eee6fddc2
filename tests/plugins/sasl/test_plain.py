"""Users of PLAIN: lines of JAAS and tables, what is refused, and changes while a broker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.sasl.test_conformance import plain_tokens
from tests.plugins.sasl.work import work_of
from tests.tables import for_each
from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.config import Config, Sources, declared_keys, settings_from_mapping
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.sasl import AuthenticationFailed, SaslContext
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.sasl import PEER
from tidelog.plugins.client import TrioClient
from tidelog.plugins.client.operations.configs import ConfigChange, ConfigResource
from tidelog.plugins.sasl import keys
from tidelog.plugins.sasl.plain import Plain

LISTENER = "SASL_PLAINTEXT"
LINE = 'PlainLoginModule required user_alice="a";'


def plain(values: dict[str, object]) -> Plain:
    """The mechanism with these settings."""
    config, _ = configure(Sources().over(settings_from_mapping({"storage": "memory", **values})))
    return Plain(SaslContext(config, LISTENER, MetadataImage, wall_clock_ms))


def lets_in(mechanism: Plain, user: str, password: str) -> bool:
    """Whether a client is let in."""
    try:
        proven = mechanism.start(PEER).respond(next(plain_tokens(user, password)))
    except AuthenticationFailed:
        return False
    assert proven == (Principal("User", user), b"", None, False)
    return True


def test_an_unknown_user_costs_the_hashes_and_comparisons_of_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mechanism = plain({"sasl.jaas.config": LINE})
    unknown = work_of(monkeypatch, lambda: lets_in(mechanism, "carol", "wrong"))
    wrong = work_of(monkeypatch, lambda: lets_in(mechanism, "alice", "wrong"))
    assert (
        [name for name, *_ in unknown] == [name for name, *_ in wrong] == ["digest"] * 2 + ["compare_digest"]
    )
    # What is compared has one length, whatever was sent.
    assert unknown[-1] == wrong[-1] == ("compare_digest", 32, 32)


def test_users_are_in_lines_and_tables(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("f\nsomething else\n")
    of_listener = f"listener.name.{LISTENER.lower()}."
    mechanism = plain(
        {
            "users": {"t": {"password": "p"}, "u": {"file": str(file)}},
            "sasl.jaas.config": 'PlainLoginModule required user_all="1";',
            f"{of_listener}sasl.jaas.config": 'PlainLoginModule required user_listener="1";',
            f"{of_listener}plain.sasl.jaas.config": 'PlainLoginModule required username="x" password="y" '
            'user_mechanism="1" user_t="of line";',
        }
    )
    assert lets_in(mechanism, "mechanism", "1")
    assert lets_in(mechanism, "u", "f")
    assert lets_in(mechanism, "t", "of line")
    for user, password in (("t", "p"), ("all", "1"), ("listener", "1"), ("x", "y"), ("u", "f\n")):
        assert not lets_in(mechanism, user, password), user


@for_each(
    ("values", "problem"),
    [
        ({}, r"listener SASL_PLAINTEXT: PLAIN has no users; add tables \[users.NAME\]"),
        ({"users": {"a": {"password": "x", "file": "y"}}}, r"\[users.a\] needs one of password and file"),
        ({"users": {"a": {"password": ""}}}, r"\[users.a\] needs one of"),
        ({"users": {"a": {"file": "/no/such"}}}, r"\[users.a\] file: /no/such cannot be read: No such file"),
        ({"users": {"a": {"file": "/dev/null"}}}, r"\[users.a\] has an empty password"),
        ({"sasl.jaas.config": "PlainLoginModule s3cret"}, "sasl.jaas.config"),
    ],
)
def test_users_that_cannot_be_used_are_an_error(values: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        plain(values)
    assert "s3cret" not in str(raised.value)


def test_keys_show_no_password() -> None:
    config = Config.from_mapping({"storage": "memory", "sasl.jaas.config": LINE}, declared_keys(keys))
    assert config.text(keys.SASL_JAAS_CONFIG.name) == "[hidden]"
    assert repr(config[keys.SASL_JAAS_CONFIG]) == "Password()"


async def test_users_of_a_line_are_changed_while_a_broker_runs() -> None:
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        name: LINE,
    }
    async with running_broker(settings) as broker, TrioClient(broker.listeners["PLAINTEXT"]) as client:
        authentication = broker.authentication_of(LISTENER)
        assert authentication is not None
        mechanism = authentication.mechanisms["PLAIN"]
        assert isinstance(mechanism, Plain)
        assert lets_in(mechanism, "alice", "a")
        of_broker = ConfigResource("broker", "1")
        await client.alter_configs(
            {of_broker: [ConfigChange(name, 'PlainLoginModule required user_bob="b";')]}
        )
        assert lets_in(mechanism, "bob", "b")
        assert not lets_in(mechanism, "alice", "a")
        described = (await client.describe_configs([of_broker]))[of_broker]
        assert not isinstance(described, Exception)
        assert [(each.value, each.is_sensitive) for each in described if each.name == name] == [(None, True)]
