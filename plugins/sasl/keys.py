"""Configuration keys of SASL mechanisms, and of users that the configuration names."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config import ConfigKey, nullable, password, string
from tidelog.kernel.config.types import Password, ValueType
from tidelog.plugins.credentials.jaas import parse_jaas

SECTION: Final = "users"


def _jaas() -> ValueType[Password]:
    def parse(text: str) -> Password:
        parse_jaas(text)
        return Password(text)

    return ValueType("password", "a line of JAAS", parse)


SASL_JAAS_CONFIG = ConfigKey(
    name="sasl.jaas.config",
    type=nullable(_jaas()),
    default=None,
    per_listener="dynamic",
    per_mechanism=True,
    documentation="Kafka's line of JAAS, for one mechanism of a listener: "
    '`listener.name.NAME.plain.sasl.jaas.config=PlainLoginModule required user_alice="password";` has the '
    "users of PLAIN.",
)
USER_PASSWORD = ConfigKey(
    name="users.NAME.password",
    type=nullable(password()),
    default=None,
    documentation="The password with which the user NAME authenticates by PLAIN, on all listeners.",
)
USER_FILE = ConfigKey(
    name="users.NAME.file",
    type=nullable(string()),
    default=None,
    documentation="A file whose first line is the password, instead of `password`.",
)
