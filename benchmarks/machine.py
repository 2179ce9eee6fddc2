"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import confluent_kafka

from tidelog.kernel.compiled import described

_LIBRARIES = ("tidelog", "trio", "crc32c", "confluent-kafka", "kio")


def machine_facts(data_dir: Path, disk: Path | None) -> dict[str, object]:
    """Processor, memory, kernel, interpreter, libraries and the file system of the data, by name."""
    return {
        "processor": _proc_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_average_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "libraries": {name: _version_of(name) for name in _LIBRARIES},
        "build": described(),
        "librdkafka": confluent_kafka.libversion()[0],
        "data_dir": str(data_dir),
        "file_system": file_system(data_dir),
        "disk_file_system": disk and file_system(disk),
    }


def _proc_value(path: str, key: str) -> str | None:
    lines = Path(path).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)


def _version_of(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def file_system(path: Path) -> str:
    """The name of a file system's type."""
    command = ["stat", "--file-system", "--format=%T", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
