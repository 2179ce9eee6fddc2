"""Memory that was freed is used again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other limits")
@pytest.mark.parametrize("size", [128 * 1024, 256 * 1024, 1024 * 1024])
def test_freed_pieces_are_used_again_without_new_pages(size: int) -> None:
    """In a process of its own: what was freed before counts, too."""
    program = f"""
from resource import RUSAGE_SELF, getrusage
from tidelog.kernel.allocator import keep_freed_blocks
keep_freed_blocks(2 * 1024 * 1024)
bytes(bytearray({size}))
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytes(bytearray({size}))
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(run.stdout) < size // 4096, "as many as one piece has"
