"""Open files on their way to a worker: file descriptors beside the messages of a connection.

Source: man page unix(7), `SCM_RIGHTS`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any


def send_descriptors(connection: Connection[Any, Any], descriptors: Sequence[int]) -> None:
    """Blocking: send descriptors; the other end has to receive as many of them next.

    Raises:
        OSError: the other end is gone.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        socket.send_fds(end, [b"\0"], descriptors)


def receive_descriptors(connection: Connection[Any, Any], count: int) -> Sequence[int]:
    """Blocking: receive so many descriptors, which the caller has to close.

    Raises:
        EOFError: the other end is gone.
        OSError: the system refused; this process may have too many open files.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        message, descriptors, _, _ = socket.recv_fds(end, 1, count)
    if not message:
        raise EOFError
    if len(descriptors) < count:
        for each in descriptors:
            os.close(each)
        raise OSError(f"{len(descriptors)} of {count} open files came")
    return descriptors
