"""The same twenty tests of an application with four servers: what they take, and what cannot be done.

`python -m benchmarks.testkits` runs them and writes `docs/testing-compared.md`.
"""
