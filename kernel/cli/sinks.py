"""`tidelog sinks`: the kinds of sinks that plugins offer, with their keys, and the configured sinks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json, print_table
from tidelog.kernel.config import Config, ConfigKey, SinkConfig
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS, ISOLATION_LEVEL, TOPICS, TOPICS_REGEX
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.plugins import Plugins, configure

if TYPE_CHECKING:
    from tidelog.kernel.seams.sinks import SinkKind

_EPILOG = """\b
Examples:
  tidelog sinks
  tidelog sinks --config broker.toml
  tidelog sinks --json

A sink is configured by a table [sinks.KIND.NAME] in the broker's file, or with
--set sinks.KIND.NAME.KEY=VALUE; `tidelog config` shows all of its settings.
"""


@click.command("sinks", epilog=_EPILOG, short_help="List the kinds of sinks and the configured sinks.")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: kinds and sinks.")
def command(config_file: Path | None, settings: tuple[str, ...], as_json: bool) -> None:
    """List the sinks of this configuration, and the kinds that plugins offer, with their keys.

    Of a broker that runs on this machine with this configuration it shows what the sinks do now.
    """
    config, plugins = configure(sources_of(config_file, settings))
    if as_json:
        status = _status(config)
        print_json({"kinds": _kinds(plugins), "sinks": [_described(sink, status) for sink in config.sinks]})
        return
    _print_sinks(config)
    click.echo()
    _print_kinds(plugins)


def _print_sinks(config: Config) -> None:
    if not config.sinks:
        click.echo("No sink is configured.")
        return
    rows = [(str(sink.name), _topics(sink), sink[ISOLATION_LEVEL]) for sink in config.sinks]
    print_table(("SINK", "TOPICS", "ISOLATION LEVEL"), rows)
    if status := _status(config):
        click.echo()
        _print_status(status)


def _print_status(status: dict[str, dict[str, Any]]) -> None:
    rows = [
        (name, each["state"], str(each["lag"]), str(each["failures"]), _details(each))
        for name, each in status.items()
    ]
    print_table(("SINK", "STATE", "LAG", "FAILURES", "DETAILS"), rows)
    for name, each in status.items():
        if each["last_error"] is not None:
            click.echo(f"Last error of {name}: {each['last_error']}")


def _details(status: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in status["details"].items()) or "-"


def _status(config: Config) -> dict[str, dict[str, Any]]:
    """Return what the sinks of the running broker do, empty if none runs."""
    from tidelog.kernel.sinks.status import read_status, status_file

    file = status_file(config)
    try:
        return {} if file is None else read_status(file)
    except OSError as error:
        raise ConfigError(f"the status of the sinks cannot be read: {error}") from error


def _print_kinds(plugins: Plugins) -> None:
    kinds, owners = plugins.sink_kinds(), _owners(plugins)
    if not kinds:
        click.echo("No installed plugin offers a kind of sink.")
        return
    print_table(
        ("KIND", "PLUGIN", "KEYS"), [(name, owners[name], _key_list(kinds[name])) for name in sorted(kinds)]
    )
    every = ", ".join(key.name for key in COMMON_SINK_KEYS)
    click.echo(f"\nKeys of every sink: {every}. A key with * has to be set.")


def _owners(plugins: Plugins) -> dict[str, str]:
    """Return the plugin that offers each kind."""
    offered = plugins.ask("tidelog_sinks")
    return {str(getattr(kind, "name", "")): plugin for plugin, kinds in offered for kind in kinds}


def _kinds(plugins: Plugins) -> list[dict[str, object]]:
    owners = _owners(plugins)
    return [
        {"kind": name, "plugin": owners[name], "keys": [_key(key) for key in kind.keys]}
        for name, kind in sorted(plugins.sink_kinds().items())
    ]


def _key_list(kind: SinkKind) -> str:
    return ", ".join(key.name + "*" * key.required for key in kind.keys) or "-"


def _key(key: ConfigKey[object]) -> dict[str, object]:
    return {
        "name": key.name,
        "type": key.type.name,
        "allowed": key.type.allowed,
        "default": None if key.required else key.type.format(key.default),
        "required": key.required,
        "documentation": key.documentation,
    }


def _topics(sink: SinkConfig) -> str:
    pattern = sink[TOPICS_REGEX]
    return ", ".join(sink[TOPICS]) if pattern is None else f"all that match {pattern.text}"


def _described(sink: SinkConfig, status: dict[str, dict[str, Any]]) -> dict[str, object]:
    settings = {key.name: key.type.format(sink[key]) for key in sink.keys if sink.is_set(key)}
    return {
        "kind": sink.name.kind,
        "name": sink.name.name,
        "settings": settings,
        "status": status.get(str(sink.name)),
    }
