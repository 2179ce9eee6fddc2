"""Listeners and connections: the only part of the kernel that owns sockets."""

from tidelog.kernel.network.server import Server

__all__ = ["Server"]
