"""Hooks of the plugin for Spark; a broker needs nothing of Spark, Arrow or numpy to import them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from tidelog.kernel.seams.sinks import SinkKind


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the commands `spark` and `load`."""
    from tidelog.plugins.spark_sink.command import spark
    from tidelog.plugins.spark_sink.load.command import load

    return [load, spark]


@hookimpl
def tidelog_sinks() -> Iterable[SinkKind]:
    """Return the kind `spark`."""
    from tidelog.plugins.spark_sink.pipelines.kind import SparkKind

    return [SparkKind()]
