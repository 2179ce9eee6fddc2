"""Metrics that clients push (KIP-714), exported beside those of the broker.

It is loaded where the configuration says so: `plugins=tidelog.plugins.client_metrics.plugin`.
"""
