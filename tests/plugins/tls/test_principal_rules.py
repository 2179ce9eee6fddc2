"""Names of certificates as principals, by rules as in Kafka's `SslPrincipalMapper`."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.keystores.stores import StoreError
from tidelog.plugins.tls.principal_rules import PrincipalRules

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@for_each(
    ("rules", "principal"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "DUKE@SERVICEUSERS"),
        # The first that matches the whole name.
        ("RULE:^CN=Duke$/short/, RULE:.*/any/, DEFAULT", "any"),
        ("RULE:^CN=Other.*$/other/", None),
        ("RULE:^CN=(Duke)(x?),.*$/$1\\/$2/", "Duke/"),
    ],
)
def test_a_name_is_mapped_by_the_first_rule_that_matches_all_of_it(rules: str, principal: str | None) -> None:
    assert PrincipalRules.parse(rules).name_of(NAME) == principal


@for_each("rules", ["RULE:a", "default", "RULE:a/b/X", "RULE:(a/b/", "RULE:(a)/$2/", "DEFAULT DEFAULT"])
def test_a_part_that_is_no_rule_is_an_error(rules: str) -> None:
    with pytest.raises(StoreError):
        PrincipalRules.parse(rules)


def test_no_name_makes_a_rule_backtrack() -> None:
    """A peer chooses its name: an engine that backtracks would not come to an end with it."""
    rules = PrincipalRules.parse("RULE:^CN=((a+)+)+b$/$1/")
    assert rules.name_of("CN=" + "a" * 10_000) is None
