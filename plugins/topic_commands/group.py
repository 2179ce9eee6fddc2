"""The group `tidelog topics`; each of its commands is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

_EPILOG = """\b
Examples:
  tidelog topics create orders --partitions 3
  tidelog topics list
  tidelog topics describe orders --bootstrap-server broker-1:9092,broker-2:9092
  tidelog topics alter orders --config max.message.bytes=2000000
  tidelog topics delete orders
"""


class _Commands(click.Group):
    """Commands, imported by name at their first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return ["alter", "create", "delete", "describe", "list"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__package__}.{cmd_name}_command").command
        return command


@click.group(
    "topics", cls=_Commands, epilog=_EPILOG, short_help="List, create, describe, alter, delete topics."
)
def topics() -> None:
    """List, create, describe, alter and delete the topics of a running broker.

    Works with tidelog and with Apache Kafka.
    """
