"""Spark: queries over topics, without a jar, and the commands `tidelog spark` and `tidelog load`.

Nothing of Spark, Arrow or numpy is imported here: a broker that has the plugin does not need them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the commands `spark` and `load`."""
    from tidelog.plugins.spark_sink.command import spark
    from tidelog.plugins.spark_sink.load.command import load

    return [load, spark]
