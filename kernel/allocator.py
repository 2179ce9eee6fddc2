"""What the allocator of the process keeps of the memory that was freed, and what the system gets back."""

from __future__ import annotations


def keep_freed_blocks(largest_bytes: int) -> None:
    """Have the allocator keep freed blocks up to that size, at most 32 MiB, for the next ones.

    glibc returns each block above 128 KiB at once, and the end of its heap as soon as that much of it is
    free. The next block is then made of pages that the system has to clear first, which takes about as long
    as to decompress records into them. It adapts both limits to the largest block that was freed (mallopt).
    """
    largest = bytearray(largest_bytes)
    del largest


def return_freed_blocks() -> None:
    """Give back whole pages of what was freed between objects that live on, where the allocator can do it."""
    # Not at the top: most processes never need it.
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
