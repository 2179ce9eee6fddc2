"""Whose tickets a client shows, by the keys of Kafka's clients: `sasl.kerberos.*` and a line of JAAS.

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/app.keytab"
        principal="app@REALM";
    com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="/tmp/krb5cc_0";

Source: Kafka documentation, "Authentication using SASL/Kerberos"; Java's `Krb5LoginModule`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.plugins.client.kerberos import KerberosSettings

_SERVICE: Final = "sasl.kerberos.service.name"
_NUMBERS: Final = {
    "sasl.kerberos.ticket.renew.window.factor": ("renew_window_factor", 1),
    "sasl.kerberos.ticket.renew.jitter": ("renew_jitter", 1),
    "sasl.kerberos.min.time.before.relogin": ("min_time_before_relogin_s", 1000),
}
"""With how many of the key's unit are one of the setting's."""
KERBEROS_KEYS: Final = (_SERVICE, *_NUMBERS)
_GSSAPI: Final = "GSSAPI, which sasl.mechanism is unless it is set,"
_MODULE: Final = "Krb5LoginModule"
_USED: Final = frozenset({"useKeyTab", "keyTab", "useTicketCache", "ticketCache", "principal", "serviceName"})
_OF_JAVA: Final = frozenset({"storeKey", "doNotPrompt", "debug", "refreshKrb5Config", "isInitiator"})
"""What Java's module asks at its terminal, prints and stores; there is nothing of that here."""


def kerberos_of_keys(values: Mapping[str, str]) -> KerberosSettings:
    """Return the settings that such keys have.

    Raises:
        ValueError: one has a value that it cannot have, or one is missing.
    """
    # Not at the top: most clients log in without Kerberos.
    from tidelog.plugins.client.kerberos import KerberosSettings

    line = values.get("sasl.jaas.config")
    options: Mapping[str, str] = {} if line is None else _options(line)
    numbers = {
        name: _number(key, values[key]) / unit for key, (name, unit) in _NUMBERS.items() if values.get(key)
    }
    return KerberosSettings(
        service_name=_service(values.get(_SERVICE), options.get("serviceName")),
        principal=options.get("principal"),
        key_table=_path(options, "useKeyTab", "keyTab"),
        ticket_cache=_path(options, "useTicketCache", "ticketCache"),
        **numbers,
    )


def _options(line: str) -> Mapping[str, str]:
    # Not at the top: processes of Spark that log in to nothing import the names of the keys.
    from tidelog.plugins.client.sasl import parsed_jaas

    entry = parsed_jaas(line)
    if entry.module_name != _MODULE:
        raise ValueError(f"sasl.jaas.config has {entry.module}, and {_GSSAPI} needs {_MODULE}")
    options = entry.options
    if _is_true(options, "renewTGT"):
        raise ValueError(
            "sasl.jaas.config: renewTGT is not possible here: have the ticket cache renewed by what fills "
            "it, such as k5start or kinit -R"
        )
    unknown = next((name for name in options if name not in _USED | _OF_JAVA | {"renewTGT"}), None)
    if unknown is not None:
        raise ValueError(f"sasl.jaas.config: {_MODULE} has an option {unknown} that this client has not")
    if not (_is_true(options, "useKeyTab") or _is_true(options, "useTicketCache")):
        raise ValueError(
            'sasl.jaas.config needs useKeyTab=true keyTab="/etc/app.keytab" principal="app@REALM", or '
            "useTicketCache=true"
        )
    return options


def _service(by_key: str | None, by_line: str | None) -> str:
    if by_key and by_line and by_key != by_line:
        raise ValueError(f"{_SERVICE} is {by_key}, and serviceName of sasl.jaas.config is {by_line}")
    found = by_key or by_line
    if not found:
        raise ValueError(f"{_SERVICE}: {_GSSAPI} needs the first part of the brokers' principal: kafka")
    return found


def _path(options: Mapping[str, str], switch: str, name: str) -> str | None:
    if not _is_true(options, switch):
        return None
    found = options.get(name)
    if found is None and name == "keyTab":
        raise ValueError("sasl.jaas.config: useKeyTab needs keyTab, the file with the keys")
    return None if found is None else found.removeprefix("file:").removeprefix("FILE:")


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() in ("true", "yes")


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{key}: {text!r} is no number") from None
