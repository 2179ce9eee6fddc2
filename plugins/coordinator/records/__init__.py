"""Kafka's own schemas of what coordinators keep, one module per family."""
