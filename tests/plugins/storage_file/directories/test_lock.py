"""One broker at a time works on a log directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.plugins.storage_file.directories.lock import DirectoryLock

HOLD = """
import sys
from pathlib import Path
from tidelog.plugins.storage_file.directories.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""
HOLD_AS_JAVA = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def hold_lock(directory: Path) -> subprocess.Popen[str]:
    """A process that holds a directory's lock."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    return holder


async def test_directory_lock_refuses_a_second_process_until_the_first_is_killed(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    harness = LogDirectoryHarness(tmp_path, tasks)
    harness.log_dir.mkdir()
    holder = hold_lock(harness.log_dir)
    with pytest.raises(ConfigError, match=r"data is in use by another broker .*stop that broker"):
        await harness.open()
    holder.kill()
    holder.communicate()
    # The lock of a process that was killed is gone with it.
    await harness.open()
    await harness.close()


def test_a_record_lock_of_another_process_is_respected(tmp_path: Path) -> None:
    """That is what Java takes; the other kind of lock does not meet it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_AS_JAVA, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"\n"
    with pytest.raises(ConfigError, match="in use by another broker"):
        DirectoryLock(tmp_path)
    holder.communicate()
    DirectoryLock(tmp_path).release()


def test_directory_lock_refuses_a_second_broker_in_the_same_process(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    link = tmp_path.parent / "link"
    link.symlink_to(tmp_path)
    for path in (tmp_path, link):
        with pytest.raises(ConfigError, match="in use by another broker"):
            DirectoryLock(path)
    lock.release()
    DirectoryLock(link).release()


async def test_a_storage_that_could_not_open_holds_no_lock(harness: LogDirectoryHarness) -> None:
    await harness.close()
    (harness.log_dir / "__cluster_metadata-0/quorum-state").write_text("{")
    with pytest.raises(ConfigError):
        await harness.open_again()
    DirectoryLock(harness.log_dir).release()


def test_release_keeps_a_broker_of_this_process_out_until_the_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, refused = DirectoryLock(tmp_path), list[str]()
    close = disk.close

    def close_late(fd: int) -> None:
        with pytest.raises(ConfigError) as raised:
            DirectoryLock(tmp_path)
        refused.append(str(raised.value))
        close(fd)

    monkeypatch.setattr(disk, "close", close_late)
    lock.release()
    monkeypatch.undo()
    assert len(refused) == 1
    DirectoryLock(tmp_path).release()
