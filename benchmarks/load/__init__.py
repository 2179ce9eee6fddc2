"""Loads: each a process of its own, so that its interpreter and its CPU time are not the harness's.

A load is a function from a spec to a result, both of plain values; `benchmarks.load.process` runs one in a
fresh interpreter (`python -m benchmarks.load FUNCTION TYPE`), once or for slice after slice: a line of JSON
with a spec goes in, one with the result comes out.
"""
