"""Metadata in a log of Apache Kafka's own format; see docs/metadata.md for the whole of it."""
