"""`--command-config`: how commands connect, by a file with Kafka's client keys, as Kafka's own tools do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs
import click

from tidelog.kernel.config.sources.properties_file import read_properties
from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.security import SecuritySettings

_META: Final = "tidelog.plugins.client_commands.security"
_PROTOCOL: Final = "security.protocol"
_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"
_KEYS: Final = frozenset(
    (
        _PROTOCOL,
        _ALGORITHM,
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
    )
)


class BadCommandConfig(TidelogError):
    """The file of `--command-config` cannot be used; the message names it and the reason."""


def use_command_config(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    """Read the file, for `security_of_command`; the `callback` of the option."""
    if path is not None:
        context.meta[_META] = read_command_config(path)


def security_of_command() -> SecuritySettings:
    """Return how the running command connects."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_META)
    return SecuritySettings() if found is None else cast("SecuritySettings", found)


def security_options() -> dict[str, Any]:
    """Return the same as options of a producer or consumer, those that are not their defaults."""
    return attrs.asdict(
        security_of_command(), recurse=False, filter=lambda field, value: value != field.default
    )


def read_command_config(path: Path) -> SecuritySettings:
    """Return the settings in a properties file with keys of Kafka's clients.

    Raises:
        BadCommandConfig: a key is none of those that commands know, or a store cannot be used.
    """
    problems: list[str] = []
    try:
        found = read_properties(path.read_text(encoding="utf-8"), str(path), problems)
    except (OSError, UnicodeDecodeError) as error:
        raise BadCommandConfig(f"{path} cannot be read: {error}.") from error
    values = {setting.name: setting.text.strip() for setting in found}
    problems += [f"{name}: commands have no part for it" for name in values if name not in _KEYS]
    if problems:
        raise BadCommandConfig(f"{path}: {problems[0]}.")
    protocol = values.get(_PROTOCOL, "PLAINTEXT")
    try:
        has_tls = SecuritySettings(security_protocol=protocol).uses_tls
        return SecuritySettings(security_protocol=protocol, ssl_context=_context(values) if has_tls else None)
    except (ValueError, TidelogError) as error:
        raise BadCommandConfig(f"{path}: {error}.") from error


def _context(values: Mapping[str, str]) -> Any:
    """Return the TLS context of a client with these stores."""
    # Not at the top: most commands connect without TLS.
    import ssl

    from tidelog.plugins.keystores.contexts import load_key, load_trusted
    from tidelog.plugins.keystores.stores import StoreText, read_key_entry, read_trusted

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = values.get(_ALGORITHM, "https") != ""
    trusted = read_trusted(
        StoreText(
            "ssl.truststore",
            values.get("ssl.truststore.type", "JKS"),
            values.get("ssl.truststore.location"),
            values.get("ssl.truststore.password"),
            values.get("ssl.truststore.certificates"),
        )
    )
    if trusted is None:
        context.load_default_certs()
    else:
        load_trusted(context, trusted)
    entry = read_key_entry(
        StoreText(
            "ssl.keystore",
            values.get("ssl.keystore.type", "JKS"),
            values.get("ssl.keystore.location"),
            values.get("ssl.keystore.password"),
            values.get("ssl.keystore.key"),
            values.get("ssl.keystore.certificate.chain"),
        ),
        values.get("ssl.key.password"),
    )
    if entry is not None:
        load_key(context, entry)
    return context
