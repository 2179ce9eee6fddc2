"""`tidelog config`: every key with its documentation, type, range, default, value and the value's origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

import attrs
import click

from tidelog import __version__
from tidelog.kernel import compiled
from tidelog.kernel.cli.options import config_options, sources_of
from tidelog.kernel.cli.tables import print_json
from tidelog.kernel.config import Config, ConfigKey, SinkName
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS
from tidelog.kernel.config.tables import PLACEHOLDER
from tidelog.kernel.plugins import configure

_EPILOG = """\b
Examples:
  tidelog config
  tidelog config num.partitions
  tidelog config --config server.properties --json
  tidelog config --set log.roll.hours=24 segment.ms
"""
_WIDTH = 100


@click.command("config", epilog=_EPILOG, short_help="Show configuration keys and their values.")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array of keys, or one object for KEY.")
@click.argument("key", required=False)
def command(config_file: Path | None, settings: tuple[str, ...], as_json: bool, key: str | None) -> None:
    """Show every configuration key, or the one named KEY, with its value and where that comes from.

    For a topic key the value is what a topic has that does not set it. Wrong settings are reported as `serve`
    would.
    """
    config, _ = configure(sources_of(config_file, settings))
    described = list(_describe_all(config))
    if key is not None:
        described = [item for item in described if key in (item.name, *item.aliases)]
        if not described:
            raise click.UsageError(_unknown(config, key))
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        items = [attrs.asdict(item) for item in described]
        print_json(items if key is None else items[0])
    else:
        click.echo("\n\n".join(_as_text(item) for item in described))
        if key is None:
            click.echo(f"\nThis is tidelog {__version__} ({compiled.described()}).")


@attrs.frozen
class _Described:
    """A key as it is shown: values as text in Kafka's notation, a secret as `[hidden]`."""

    name: str
    scope: str
    type: str
    allowed: str
    default: str
    value: str
    origin: str
    aliases: tuple[str, ...]
    environment: str | None
    required: bool
    broker_defaults: tuple[str, ...]
    documentation: str


def _describe_all(config: Config) -> Iterator[_Described]:
    for key in sorted(config.keys.of_scope("broker"), key=str):
        yield _describe(key, config[key], str(config.origin(key)))
    for key in sorted(config.keys.of_scope("topic"), key=str):
        default = config.topic_defaults[key.name]
        yield _describe(key, default.value, str(default.broker_key or "default"))
    for key in sorted(config.keys.of_scope("group"), key=str):
        broker_key = key.broker_defaults[0].key if key.broker_defaults else None
        value = key.default if broker_key is None else config[broker_key]
        set_by = broker_key if broker_key is not None and config.is_set(broker_key) else "default"
        yield _describe(key, value, str(set_by))
    for key in sorted(config.keys.of_scope("client-metrics"), key=str):
        yield _describe(key, key.default, "default")

    for kind, keys in config.keys.sink_kinds.items():
        for key in (*COMMON_SINK_KEYS, *keys):
            name = SinkName(kind, PLACEHOLDER)
            yield attrs.evolve(_describe(name.full_key(key), key.default, "default"), environment=None)
    for keys in config.keys.table_keys.values():
        for key in keys:
            yield attrs.evolve(_describe(key, key.default, "default"), environment=None)


def _describe(key: ConfigKey[object], value: object, origin: str) -> _Described:
    return _Described(
        name=key.name,
        scope=key.scope,
        type=key.type.name,
        allowed=key.type.allowed,
        default=key.type.format(key.default),
        value=key.type.format(value),
        origin=origin,
        aliases=key.aliases,
        environment=key.environment_variable if key.scope == "broker" else None,
        required=key.required,
        broker_defaults=tuple(default.key.name for default in key.broker_defaults),
        documentation=key.documentation,
    )


def _as_text(item: _Described) -> str:
    facts = [
        f"{item.scope} key",
        f"{item.type} {item.allowed}".rstrip(),
        "has to be set" if item.required else f"default: {item.default or '(empty)'}",
    ]
    if item.aliases:
        facts.append(f"also named {', '.join(item.aliases)}")
    if item.broker_defaults:
        facts.append(f"set for all topics by {', '.join(item.broker_defaults)}")
    head = click.style(f"{item.name} = {item.value or '(empty)'}", bold=True)
    return f"{head}  ({item.origin})\n{_indent(item.documentation)}\n{_indent('; '.join(facts) + '.')}"


def _indent(text: str) -> str:
    return fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _unknown(config: Config, key: str) -> str:
    near = config.keys.nearest(key, "broker") or config.keys.nearest(key, "topic")
    return f"There is no key {key!r}." + (f" Did you mean {near}?" if near else "")
