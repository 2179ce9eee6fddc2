"""A module for each API: `handle(context, request)` returns the response, or an awaitable of it.

`None` means that there is no response (Produce with acks 0).
"""
