"""The command `certs`: an authority, and certificates of a broker and of clients, for development."""

from __future__ import annotations

from pathlib import Path

import click

_EPILOG = """\b
Examples:
  tidelog certs certificates
  tidelog certs certificates --host broker.example --host 10.0.0.7 --client alice
"""


@click.command(epilog=_EPILOG)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or an address by which clients reach the broker; may be repeated. Without any: localhost.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Make a certificate of a client; may be repeated.",
)
@click.option(
    "--days", default=365, show_default=True, type=click.IntRange(min=1), help="How long all are valid."
)
@click.option("--force", is_flag=True, help="Replace certificates that are there; the authority is kept.")
def certs(directory: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int, force: bool) -> None:
    """Make certificates for a broker with TLS and its clients, for development.

    DIRECTORY gets an authority (ca.pem, ca.key), unless it has one, the certificate of the broker with its
    key (broker.pem), and that of each client (NAME.pem). With ca.key anyone can make more of them.
    """
    # Not at the top: to import what makes certificates takes longer than most commands.
    from tidelog.plugins.tls.development_certificates import make_certificates

    click.echo(make_certificates(directory, hosts, clients, days, force=force))
