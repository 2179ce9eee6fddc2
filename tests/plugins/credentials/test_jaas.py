"""Lines of JAAS: forms that Kafka takes, and what is no line."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.credentials.jaas import MAX_CHARACTERS, BadJaas, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@for_each(
    ("line", "options"),
    [
        (f"{MODULE} required;", {}),
        (f'{MODULE} required username="a" password="b c;=";', {"username": "a", "password": "b c;="}),
        (f"{MODULE} REQUIRED username='a\"b' password=\"c'd\";", {"username": 'a"b', "password": "c'd"}),
        (f'{MODULE}\n  required\n  user_alice="1"\n  user_bob=2 ;\n', {"user_alice": "1", "user_bob": "2"}),
        (f'{MODULE} required a="\\"\\\\\\n" b="";', {"a": '"\\\n', "b": ""}),
        (f'{MODULE} required user_a.b-c@d="ü";', {"user_a.b-c@d": "ü"}),
    ],
)
def test_parse_jaas(line: str, options: dict[str, str]) -> None:
    entry = parse_jaas(line)
    assert (entry.module, entry.module_name) == (MODULE, "PlainLoginModule")
    assert entry.options == options


@for_each(
    ("line", "problem"),
    [
        ("", "is not of the form"),
        (MODULE, "is not of the form"),
        (f'{MODULE} required username="a"', "is not of the form"),
        (f'{MODULE} username="a";', "has none of required"),
        (f'{MODULE} required password="s3cret', "cannot be read from character"),
        (f"{MODULE} required password;", "has an option 1 without"),
        (f"{MODULE} required password==s3cret;", "has an option 1 without"),
        (f'{MODULE} required "s3cret"="a";', "has something else than"),
        (f'{MODULE} required a="s3cret" a="s3cret";', "second time as option 2"),
        # A quote in a password that is not escaped: what follows it looks like options.
        (f'{MODULE} required password="a"s3cret b"";', "an option 2 without"),
        (f'{MODULE} required password="a"s3cret="b"s3cret="c";', "second time as option 3"),
        (f'{MODULE} required a="s3cret"; {MODULE} required;', "has something else|without"),
        ("x" * (MAX_CHARACTERS + 1), "characters"),
    ],
)
def test_parse_jaas_refuses_without_showing_a_password(line: str, problem: str) -> None:
    with pytest.raises(BadJaas, match=problem) as raised:
        parse_jaas(line)
    assert "s3cret" not in str(raised.value)


def test_an_entry_shows_no_secret() -> None:
    assert "s3cret" not in repr(parse_jaas(f'{MODULE} required password="s3cret";'))
