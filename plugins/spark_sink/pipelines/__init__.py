"""Pipelines: each table `[sinks.spark.NAME]` of the broker's configuration is a query of Spark that it runs.

`keys`, `values` and `schema` are the configuration and its checks, `definition` is what it says as a whole.
Nothing of Spark is imported by them: the query runs in a process of its own.
"""
