"""What a part of a running broker does, in a file in its data directory, for commands on the same machine.

The file is gone when the broker has stopped. One that a killed broker left is known by its process id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tidelog.kernel import disk
from tidelog.kernel.config.paths import data_directories

if TYPE_CHECKING:
    from tidelog.kernel.config import Config


def status_path(config: Config, name: str) -> Path | None:
    """Return the file `name` in the first data directory, None if the storage has no files."""
    folder = next(iter(data_directories(config)), None)
    return folder / name if folder is not None and folder.is_dir() else None


def write_status_file(path: Path, content: Mapping[str, object]) -> None:
    """Replace the file.

    Raises:
        OSError: the disk refuses.
    """
    draft = path.with_name(path.name + disk.TEMPORARY_SUFFIX)
    disk.write_file(draft, json.dumps({"pid": os.getpid(), **content}, indent=1).encode(), durable=False)
    # So that a reader finds the old content or the new, and never a part.
    disk.rename(draft, path)


def read_status_file(path: Path) -> dict[str, Any]:
    """Return what the running broker has written; empty if no broker runs.

    Raises:
        OSError: there is a file, which cannot be read; that of a broker of another user, for example.
    """
    try:
        found: object = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        # A file that is not whole is that of a broker that was stopped by the end of its machine.
        return {}
    content = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    process_id = content.get("pid")
    return content if isinstance(process_id, int) and _is_running(process_id) else {}


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    # There is such a process, of another user.
    except PermissionError:
        pass
    return True
