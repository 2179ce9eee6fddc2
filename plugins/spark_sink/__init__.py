"""Spark: record batches as rows of Spark's Kafka source, and Structured Streaming over them.

Nothing of Spark, Arrow or numpy is imported here: a broker that has the plugin does not need them.
"""
