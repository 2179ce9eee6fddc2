"""Consumers: `simple_consumer` reads from given offsets, `consumer` keeps positions and shares a group.

`async_simple_consumer` and `async_consumer` are the same for async code; `core` has what consumers share.
"""
