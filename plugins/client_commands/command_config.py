"""How commands connect: `--command-config`, a file with Kafka's client keys, and ensembles of ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import click

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.keys_file import read_keys_file
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client.security_keys import security_of_keys
from tidelog.plugins.client.zookeeper_ensemble import names_ensemble
from tidelog.plugins.client.zookeeper_keys import ZOOKEEPER_KEYS, ensemble_of_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers
    from tidelog.plugins.keystores.tls_stores import TlsStores

_META: Final = "tidelog.plugins.client_commands.command_config"


@attrs.frozen
class CommandConfig:
    """How a command connects to brokers, and all keys, of which some are for ZooKeeper."""

    security: SecuritySettings = attrs.field(factory=SecuritySettings)
    values: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)


class BadCommandConfig(TidelogError):
    """The file of `--command-config` cannot be used; the message names it and the reason."""


def use_command_config(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    """Read the file, for `security_of_command`; the `callback` of the option."""
    if path is not None:
        context.meta[_META] = read_command_config(path)


def security_of_command() -> SecuritySettings:
    """Return how the running command connects."""
    return _config_of_command().security


def bootstrap_of_command(bootstrap: str) -> BootstrapServers:
    """Return what a client of the running command finds its brokers by: addresses, or an ensemble.

    Raises:
        click.BadParameter: the ensemble has another form, or a key for it a value that it cannot have.
    """
    if not names_ensemble(bootstrap):
        return bootstrap
    try:
        return ensemble_of_keys(bootstrap, _config_of_command().values)
    except (ValueError, ModuleNotFoundError, TidelogError) as error:
        raise click.BadParameter(f"{error}.", param_hint="--bootstrap-server") from error


def _config_of_command() -> CommandConfig:
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_META)
    return CommandConfig() if found is None else cast("CommandConfig", found)


def security_options() -> dict[str, Any]:
    """Return the same as options of a producer or consumer, those that are not their defaults."""
    return attrs.asdict(
        security_of_command(), recurse=False, filter=lambda field, value: value != field.default
    )


def read_command_config(path: Path) -> CommandConfig:
    """Return what a properties file has: keys of Kafka's clients, and `zookeeper.ssl.*` as of its brokers.

    Raises:
        BadCommandConfig: a key is none of those that commands know, or has a value that cannot be used.
    """
    try:
        values = read_keys_file(path, ZOOKEEPER_KEYS)
    except ValueError as error:
        raise BadCommandConfig(f"{error}.") from error
    try:
        security = security_of_keys(values)
        if security.ssl_stores is not None:
            _check_stores(security.ssl_stores)
    except (ValueError, TidelogError) as error:
        raise BadCommandConfig(f"{path}: {error}.") from error
    return CommandConfig(security, values)


def _check_stores(stores: TlsStores) -> None:
    """Read the stores once, so that what is wrong with them ends the command before it connects."""
    # Not at the top: most commands connect without TLS.
    import ssl

    stores.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
