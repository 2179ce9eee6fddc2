"""The type of options whose value is a path."""

from __future__ import annotations

import os
from typing import Any

import click

from tidelog.kernel.config.paths import check_local_path


class LocalPath(click.Path):
    """A path of this machine: what has a scheme, such as `s3://bucket/x`, is refused."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path.

        Raises:
            click.BadParameter: it has a scheme, or is not what `click.Path` expects.
        """
        try:
            check_local_path(os.fspath(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return super().convert(value, param, ctx)
