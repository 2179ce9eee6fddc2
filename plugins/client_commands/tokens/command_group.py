"""The group `tidelog tokens`."""

from __future__ import annotations

import click

from tidelog.plugins.client_commands.lazy_group import LazyGroup

_EPILOG = """\b
Examples:
  tidelog tokens create --renewer User:scheduler --lifetime 7d --to job.properties
  tidelog tokens list
  tidelog tokens renew 9vK1ZsGOSpaWIj2yi4eLGg --period 12h
  tidelog tokens expire 9vK1ZsGOSpaWIj2yi4eLGg
"""


@click.group(
    "tokens",
    cls=LazyGroup,
    package=__package__,
    names=["create", "expire", "list", "renew"],
    epilog=_EPILOG,
    short_help="Create, list, renew and expire delegation tokens.",
)
def tokens() -> None:
    """Create, list, renew and expire delegation tokens, by which others log in as you for a time.

    Works with tidelog and with Apache Kafka, where delegation.token.secret.key is set, for who is logged in
    (--command-config) with SASL or a certificate, and not by a token.
    """
