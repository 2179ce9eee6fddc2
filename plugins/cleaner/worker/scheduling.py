"""How the system shares its processors between a process and all others.

Sources: man pages nice(2), sched(7), sched_setattr(2); Linux' Documentation/scheduler/sched-eevdf.rst.
"""

from __future__ import annotations

import ctypes
import os
from struct import Struct
from typing import Final

BACKGROUND_NICENESS: Final = 10
"""Added to the niceness of the process: a tenth of a processor is left where others need all of it."""
BACKGROUND_SLICE_NS: Final = 4_000_000
"""The time slice of background work, about three times as long as that of others.

What wakes up with a shorter slice runs at once. A much longer one would keep it waiting where it has used
up its share, and a shorter one would have the processor change between both all the time.
"""

_ATTRIBUTES: Final = Struct("=IIQiIQQQ")
"""struct sched_attr: size, policy, flags, niceness, priority; in nanoseconds runtime, deadline, period."""
_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}
"""Number of the system call by machine; not every C library has a function for it."""


def run_in_background() -> None:
    """Let all other processes run before this one; threads that are started later do so too.

    The system may not know time slices (Linux before 6.12, other systems): then it is lower priority alone.
    """
    niceness = os.nice(BACKGROUND_NICENESS)
    if not hasattr(os, "SCHED_BATCH"):
        return
    # A batch process never interrupts another one when it wakes up.
    number = _SET_ATTRIBUTES.get(os.uname().machine)
    if number is None or not _set_attributes(number, niceness):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _set_attributes(number: int, niceness: int) -> bool:
    """Return whether the system took policy and time slice."""
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_BATCH, 0, niceness, 0, BACKGROUND_SLICE_NS, 0, 0)
    this_thread = flags = 0
    system_call = ctypes.CDLL(None).syscall
    system_call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return bool(system_call(number, this_thread, attributes, flags) == 0)
