"""`tidelog plugin new`: writes a package with a plugin for one seam."""

from __future__ import annotations

from pathlib import Path

import click

from tidelog.plugins.scaffold.package import SEAMS, PluginPackage

_EPILOG = """\b
Examples:
  tidelog plugin new tide-store --seam storage
  pip install --editable './tide-store[dev]' && tidelog plugins check tide-store
"""


@click.group("plugin", epilog=_EPILOG, short_help="Begin a plugin of your own.")
def plugin() -> None:
    """Begin a plugin of your own; `tidelog plugins` has those that are installed."""


@plugin.command("new", epilog=_EPILOG, short_help="Write a package with a plugin that works.")
@click.argument("name")
@click.option("--seam", required=True, type=click.Choice(sorted(SEAMS)), help="What it is to implement.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to make the folder NAME. Default: here.",
)
def new(name: str, seam: str, directory: Path) -> None:
    """Write a package NAME with a plugin that works, its tests and a README.

    The package is typed and passes mypy, ruff and the conformance suite of its seam as it is.
    """
    package = PluginPackage.named(name, seam)
    folder = directory / package.name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise click.ClickException(f"{folder} exists already; choose another NAME or --directory.") from None
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be made: {error}") from error
    for path, content in package.files().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        click.echo(file)
    click.echo(f"\nNext:\n  pip install --editable '{folder}[dev]'\n  tidelog plugins check {package.name}")
