"""Which addresses are understood, and what is said of the others."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import InvalidAddress
from tidelog.plugins.client.settings import RetryPolicy, parse_addresses


@for_each(
    ("text", "addresses"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("broker-1.example:1", [("broker-1.example", 1)]),
        ("a:9092,b:9093", [("a", 9092), ("b", 9093)]),
        (" a:9092 , b:9093 ,", [("a", 9092), ("b", 9093)]),
        ("a:9092,a:9092", [("a", 9092)]),
        ("[::1]:65535", [("::1", 65535)]),
        ("PLAINTEXT://127.0.0.1:9092", [("127.0.0.1", 9092)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
    ],
)
def test_parse_addresses_returns_host_and_port_of_each_address(
    text: str | list[str], addresses: list[tuple[str, int]]
) -> None:
    assert parse_addresses(text) == tuple(Address(host, port) for host, port in addresses)


@for_each(
    "text",
    [
        "localhost",
        "a:",
        ":9092",
        "a:0",
        "a:65536",
        "a:9092x",
        "::1:9092",
        "SSL://a:1",
        "a b:1",
        "http://a:1/",
    ],
)
def test_parse_addresses_refuses_other_text_and_shows_the_expected_form(text: str) -> None:
    with pytest.raises(InvalidAddress, match="it has the form host:port, such as"):
        parse_addresses(text)


@pytest.mark.parametrize("nothing", ["", " , ", []])
def test_parse_addresses_refuses_an_empty_list(nothing: str | list[str]) -> None:
    with pytest.raises(InvalidAddress, match="no broker address is given"):
        parse_addresses(nothing)


@pytest.mark.parametrize("text", ["a:1", "[fe80::1]:9092"])
def test_parse_addresses_returns_an_address_that_prints_as_the_same_text(text: str) -> None:
    assert str(parse_addresses(text)[0]) == text


def test_retry_policy_may_have_any_number_of_retries() -> None:
    pauses = RetryPolicy(retries=2000, backoff_s=0.1, max_backoff_s=1.0, jitter=0.0).pauses()
    assert list(pauses)[-1] == 1.0
