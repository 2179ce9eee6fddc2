"""What Spark's processes need in their environment: Java, the right Python, and the format `tidelog`."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from tidelog.kernel.config.secret_names import names_secret
from tidelog.plugins.spark_sink.java import Java, find_java
from tidelog.plugins.spark_sink.required import require_spark

if TYPE_CHECKING:
    from pyspark import SparkContext

_DISCOVERY: Final = Path(__file__).parent / "discovery"
"""The folder with `pyspark_tidelog`, by which Spark finds the format."""


def spark_environment(environment: Mapping[str, str] = os.environ) -> tuple[Java, dict[str, str]]:
    """Return the Java for Spark, and the variables to set for it; those that the user has set stay.

    Spark runs its workers with `python3` of the PATH unless PYSPARK_PYTHON is set, and it finds data sources
    by the names of modules in the folders of `sys.path`, which an editable install does not show it.

    Raises:
        JavaNotFound: there is no Java that Spark runs on.
    """
    java = find_java(environment)
    variables = {"JAVA_HOME": str(java.home)}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        variables[name] = environment.get(name) or sys.executable
    if not any(module.name == "pyspark_tidelog" for module in pkgutil.iter_modules()):
        path = environment.get("PYTHONPATH")
        variables["PYTHONPATH"] = f"{_DISCOVERY}{os.pathsep}{path}" if path else str(_DISCOVERY)
    return java, variables


def prepare_spark() -> Java:
    """Set this process's environment for a Spark session that it starts afterwards, and return the Java.

    Raises:
        SparkNotUsable: PySpark or Arrow is missing or too old.
        JavaNotFound: there is no Java that Spark runs on.
    """
    require_spark()
    java, variables = spark_environment()
    os.environ.update(variables)
    if "PYTHONPATH" in variables and str(_DISCOVERY) not in sys.path:
        # The variable is for the processes that Spark starts: this one has read it at its own start.
        sys.path.append(str(_DISCOVERY))
    return java


def start_context(settings: Mapping[str, str], output: IO[bytes] | None = None) -> SparkContext:
    """Start a JVM, and Spark in it with these settings; what the JVM writes goes to `output`, if given.

    PySpark starts the JVM with settings as arguments, which other users of the machine see; those that are
    secrets are given to it when it runs.
    """
    # Not at the top: brokers without a pipeline have no PySpark.
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    shown = [(name, value) for name, value in settings.items() if not names_secret(name)]
    streams: dict[str, Any] = {} if output is None else {"stdout": output, "stderr": output}
    gateway = launch_gateway(SparkConf(loadDefaults=False).setAll(shown), streams)  # type: ignore[no-untyped-call]
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    return SparkContext(conf=conf, gateway=gateway)
