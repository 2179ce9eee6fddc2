"""What the allocator of the process keeps of the memory that was freed, and what the system gets back."""

from __future__ import annotations

from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_KEPT_AT_MOST_BYTES: Final = 128 * 1024
"""What glibc begins with."""


def keep_freed_blocks(largest_bytes: int) -> None:
    """Have the allocator keep freed blocks up to that size, at most 32 MiB, for the next ones.

    glibc returns each block above 128 KiB at once, and the end of its heap as soon as that much of it is
    free. The next block is then made of pages that the system has to clear first, which takes about as long
    as to decompress records into them. It adapts both limits to the largest block that was freed (mallopt).
    """
    largest = bytearray(largest_bytes)
    del largest


def keep_no_freed_blocks() -> None:
    """Have the allocator keep at most 128 KiB at the end of each heap, whatever `keep_freed_blocks` asks for.

    In glibc most threads have a heap of their own. What a thread that has ended leaves at the end of it is
    not given back by `return_freed_blocks`, which trims only the end of the first one (malloc_trim).
    """
    # Not at the top, here and below: most processes never need it.
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # A limit that was set is not adapted any more.
        mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_MOST_BYTES)


def return_freed_blocks() -> None:
    """Give back whole pages of what was freed between objects that live on, where the allocator can do it."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
