"""Drivers own sockets, timeouts and waiting, for blocking code and for trio; the rest is in the core."""
