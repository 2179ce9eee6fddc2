"""A soak: real clients at work while the broker is killed, loses its power, is paused and changed.

`python -m tests.soak --help` (`make soak MINUTES=n`) runs it; docs/testing.md says what it checks.
"""
