"""Every file operation of the plugins that keep data in files.

They call the system only through here, so that a test can make any single operation fail, stop short or be
lost in a power cut.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any, Final

pwrite = os.pwrite
pread = os.pread
preadv = os.preadv
ftruncate = os.ftruncate
truncate = os.truncate
fsync = os.fsync
sync_data = getattr(os, "fdatasync", os.fsync)
rename = os.replace
unlink = os.unlink
stat = os.stat
scandir = os.scandir
statvfs = os.statvfs
remove_tree = shutil.rmtree
close = os.close

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk, which is not a failed one: the same operation succeeds when there is room again."""

NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""Flag of `preadv`: read what is in memory, never wait for a device; 0 where the system has no such flag."""

TEMPORARY_SUFFIX = ".tmp"
_FILE_MODE = 0o640
DIRECTORY_MODE: Final = 0o750
"""Others than the user and the group read no records; a stricter umask takes more away."""
_NO_LIMIT: Final = 2**31 - 1
# Without this, CPython keeps a second descriptor open for every mapping.
_MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def is_full(error: BaseException) -> bool:
    """Return whether an operation was refused for want of room."""
    return isinstance(error, OSError) and error.errno in FULL


def full_error(what: str) -> OSError:
    """Return the error of a full disk for an operation that the system was not asked for; `what` says why."""
    return OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {what}")


def open_file(path: str | Path, flags: int) -> int:
    """Open, or create with `os.O_CREAT`; the descriptor is not inherited by child processes."""
    return os.open(path, flags | os.O_CLOEXEC, _FILE_MODE)


def adopt(path: str | Path, fd: int) -> int:
    """Return a descriptor that another process has opened, of a file that had this path then."""
    del path
    return fd


def mkdir(path: str | Path) -> None:
    """Create a directory; its parent has to be there."""
    Path(path).mkdir(DIRECTORY_MODE)


def map_readable(fd: int, size: int) -> mmap.mmap:
    """Map the first `size` bytes to read them."""
    return mmap.mmap(fd, size, prot=mmap.PROT_READ, **_MAP_OPTIONS)


def map_writable(fd: int, size: int) -> mmap.mmap:
    """Map the first `size` bytes to read and write them."""
    return mmap.mmap(fd, size, **_MAP_OPTIONS)


def preallocate(fd: int, size: int) -> None:
    """Give a new file its final size, with blocks where the system can."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        ftruncate(fd, size)


def write_all(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write everything at `position`, with as many calls as the system needs.

    Raises:
        OSError: the disk refused; an unknown part was written.
    """
    rest = memoryview(data)
    while rest:
        written = pwrite(fd, rest, position)
        # Without an error and without progress: the loop would never end.
        if not written:
            raise full_error("the disk took none of the bytes")
        rest = rest[written:]
        position += written


def read_up_to(fd: int, size: int, position: int) -> bytes:
    """Return `size` bytes from `position` on, fewer only at the file's end."""
    content = pread(fd, size, position)
    while len(content) < size:
        more = pread(fd, size - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def will_need(fd: int, size: int, position: int) -> None:
    """Let the system begin to read `size` bytes from `position` on, without waiting for them.

    It does nothing where there is no such call.

    Raises:
        OSError: the system refused.
    """
    # To the system a size of 0 means all up to the end.
    if size > 0 and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)


def read_file(path: str | Path) -> bytes | None:
    """Return a small file's content, None when it does not exist."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        content = bytearray()
        while chunk := pread(fd, 1 << 16, len(content)):
            content += chunk
        return bytes(content)
    finally:
        close(fd)


def write_file(path: str | Path, content: bytes | bytearray, *, durable: bool) -> None:
    """Create or overwrite a file in place; `durable` waits for the device."""
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(fd, content, 0)
        if durable:
            fsync(fd)
    finally:
        close(fd)


def replace_file(path: str | Path, content: bytes) -> None:
    """Replace a file so that a crash leaves the old content or the new; the new one is durable on return."""
    temporary = f"{path}{TEMPORARY_SUFFIX}"
    try:
        write_file(temporary, content, durable=True)
        rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            unlink(temporary)
        raise
    # The rename itself is only durable with its directory.
    sync_directory(Path(path).parent)


def sync_directory(path: str | Path) -> None:
    """Make creations, renames and removals inside a directory durable."""
    fd = open_file(path, os.O_RDONLY)
    try:
        fsync(fd)
    finally:
        close(fd)


def remove_if_there(path: str | Path) -> None:
    """Unlink a file; no error when it does not exist."""
    with contextlib.suppress(FileNotFoundError):
        unlink(path)


def set_modified(path: str | Path, modified_ms: int) -> None:
    """Set when a file was changed last."""
    os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; return the limit that holds now.

    Where there is none, it is the largest of an integer of 32 bits.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return min(soft, _NO_LIMIT) if soft >= 0 else _NO_LIMIT
