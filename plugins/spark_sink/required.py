"""What queries need to be installed: PySpark and Arrow, PySpark not older than `LEAST_PYSPARK`."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tidelog.kernel.errors import TidelogError

LEAST_PYSPARK: Final = (4, 2)
"""The first one whose stream readers can limit micro-batches and end with the data that is there."""
_VERSION: Final = re.compile(r"__version__[^=]*= *[\"'](?P<major>\d+)\.(?P<minor>\d+)[^\"']*[\"']")


class SparkNotUsable(TidelogError, ImportError):
    """PySpark or Arrow is missing, or PySpark is too old; the message says what to install."""


def require_spark() -> Path:
    """Check what queries need, without importing it; return the folder of PySpark.

    Raises:
        SparkNotUsable: something is missing or too old.
    """
    install = f"Run: {sys.executable} -m pip install 'tidelog[spark]'"
    spec = _spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkNotUsable(f"PySpark is not installed. {install}")
    folder = Path(spec.origin).parent
    needed = ".".join(map(str, LEAST_PYSPARK))
    # By its loader: on clusters PySpark is often in an archive.
    found = _VERSION.search(spec.loader.get_data(str(folder / "version.py")).decode())
    if found is not None and (int(found["major"]), int(found["minor"])) < LEAST_PYSPARK:
        version = found[0].split("=")[1].strip(" \"'")
        raise SparkNotUsable(
            f"PySpark {version} in {folder} is too old: the format tidelog needs {needed} or newer. {install}"
        )
    if _spec("pyarrow") is None:
        raise SparkNotUsable(f"Arrow (pyarrow) is not installed. {install}")
    return folder


def _spec(package: str) -> Any:
    try:
        return find_spec(package)
    except ValueError:  # a module that was put in place of it
        return None
