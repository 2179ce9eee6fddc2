"""Listeners as Kafka writes them."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.config.bundle import bundle_config
from tests.tables import for_each
from tidelog.kernel.config import (
    Config,
    Listener,
    format_address,
    keys,
    parse_advertised_listeners,
    parse_listeners,
)
from tidelog.kernel.errors import ConfigError

VALID = [
    ("PLAINTEXT://:9092", (Listener("PLAINTEXT", "", 9092),)),
    ("plaintext://localhost:0", (Listener("PLAINTEXT", "localhost", 0),)),
    ("PLAINTEXT://[::1]:9092", (Listener("PLAINTEXT", "::1", 9092),)),
    (
        "A://127.0.0.1:1, B_2://host.example:2",
        (Listener("A", "127.0.0.1", 1), Listener("B_2", "host.example", 2)),
    ),
    ("A://127.0.0.1:0,B://127.0.0.1:0", (Listener("A", "127.0.0.1", 0), Listener("B", "127.0.0.1", 0))),
    ("A://127.0.0.1:1,B://[::1]:1", (Listener("A", "127.0.0.1", 1), Listener("B", "::1", 1))),
]


@for_each(("text", "listeners"), VALID)
def test_valid_listeners(text: str, listeners: tuple[Listener, ...]) -> None:
    assert parse_listeners(text) == listeners


INVALID = [
    ("", "names no listener"),
    ("9092", "not of the form NAME://host:port"),
    ("localhost:9092", "not of the form NAME://host:port"),
    ("://localhost:9092", "not of the form NAME://host:port"),
    ("PLAINTEXT://localhost", "not of the form NAME://host:port"),
    ("PLAINTEXT://::1:9092", "an IPv6 host in brackets"),
    ("PLAINTEXT://[::1]", "an IPv6 host in brackets"),
    ("PLAINTEXT://[localhost]:1", "an IPv6 host in brackets"),
    ("PLAINTEXT://:", "whose port is not a number from 0 to 65535"),
    ("PLAINTEXT://:65536", "whose port is not a number from 0 to 65535"),
    ("PLAINTEXT://:-1", "whose port is not a number from 0 to 65535"),
    ("PLAINTEXT://a b:1", "whose host is not a name or an address"),
    ("PLAINTEXT://host/path:1", "whose host is not a name or an address"),
    ("A://:1,a://:2", "names the listener A twice"),
    ("A://:1,B://:1", "uses the port 1 twice"),
    ("A://:1,B://[::1]:1", "uses the port 1 twice"),
]


@for_each(("text", "reason"), INVALID)
def test_invalid_listeners_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        parse_listeners(text)
    assert reason in str(caught.value)


def test_advertised_listeners_may_share_a_port_but_need_a_host() -> None:
    assert len(parse_advertised_listeners("A://lb.example:443,B://lb.example:443")) == 2
    for host in ("", "0.0.0.0", "[::]"):
        with pytest.raises(ValueError, match="not one that clients can connect to"):
            parse_advertised_listeners(f"A://{host}:9092")


def test_limits_of_one_listener_are_set_by_its_name_in_lower_case() -> None:
    config = Config.from_mapping({"listener.name.plaintext.max.connections": 7, "max.connections": 9})
    assert config.of_listener_alone(keys.MAX_CONNECTIONS, "PLAINTEXT") == 7
    assert config.of_listener_alone(keys.MAX_CONNECTIONS, "OTHER") == keys.MAX_CONNECTIONS.default
    assert [key.name for key in config.listener_keys()] == ["listener.name.plaintext.max.connections"]
    config.set_dynamic({"listener.name.plaintext.max.connections": "5"}, {})
    assert config.of_listener_alone(keys.MAX_CONNECTIONS, "PLAINTEXT") == 5
    config.set_dynamic({}, {})
    assert config.of_listener_alone(keys.MAX_CONNECTIONS, "PLAINTEXT") == 7


@for_each(
    "name",
    [
        "listener.name.PLAINTEXT.max.connections",
        "listener.name..max.connections",
        "listener.name.plaintext.max.connections.per.ip",
        "listener.name.plaintext.ssl.keystore.location",
    ],
)
def test_other_keys_of_one_listener_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(name)):
        Config.from_mapping({name: "1"})


@for_each(
    ("name", "meant"),
    [
        ("listener.name.plaintext.max.conections", "listener.name.plaintext.max.connections"),
        (
            "listener.name.inner.max.connection.creation.rates",
            "listener.name.inner.max.connection.creation.rate",
        ),
        ("listener.name.PLAINTEXT.max.connections", "listener.name.plaintext.max.connections"),
        ("listener.name.plaintext.max.connections.per.ip", None),
        ("listener.name.plaintext.ssl.keystore.locatoin", "listener.name.plaintext.ssl.keystore.location"),
        ("listener.name..max.connections", None),
        ("listener.name.max.connections", None),
    ],
)
def test_a_misspelt_key_of_a_listener_is_answered_with_the_nearest(name: str, meant: str | None) -> None:
    answer = f"did you mean {meant}?" if meant else "no part for (this setting for one listener"
    with pytest.raises(ConfigError, match=re.escape(answer)):
        bundle_config({name: "1"})


names = st.from_regex(r"[A-Z][A-Z0-9_]{0,10}", fullmatch=True)
hosts = st.just("") | st.ip_addresses().map(str) | st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)


@given(st.builds(Listener, names, hosts, st.integers(0, 65535)))
def test_listeners_survive_text(listener: Listener) -> None:
    assert parse_listeners(str(listener)) == (listener,)
    assert listener.address == format_address(listener.host, listener.port)


@given(st.text())
def test_parse_listeners_raises_only_value_error_for_any_text(text: str) -> None:
    with suppress(ValueError):
        assert parse_listeners(text)


def test_a_served_listener_knows_its_codec_and_its_advertised_address() -> None:
    config = Config.from_mapping(
        {
            "listeners": "IN://127.0.0.1:0,OUT://:9092",
            "listener.codec.map": "out:other",
            "advertised.listeners": "OUT://broker.example:443",
        }
    )
    inner, outer = config.served_listeners()
    assert (inner.name, inner.address, inner.codec, inner.advertised) == ("IN", "127.0.0.1:0", "kafka", None)
    assert (outer.name, outer.codec) == ("OUT", "other")
    assert outer.advertised == Listener("OUT", "broker.example", 443)


def test_a_listener_of_controllers_is_not_opened_and_that_is_told() -> None:
    config = Config.from_mapping(
        {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names": "controller"}
    )
    assert [listener.name for listener in config.served_listeners()] == ["PLAINTEXT"]
    assert len(config[keys.LISTENERS]) == 2
    (warning,) = config.warnings
    assert "CONTROLLER://:9093 is not opened" in warning
