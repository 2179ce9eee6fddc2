"""The sinks of a broker: `sinks` has those that are configured, `supervision` runs each of them.

`feed` reports to a sink which partitions come and go and what is committed, `committed_log` reads it.
"""
