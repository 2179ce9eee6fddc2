"""Kafka over HTTP: a second wire protocol, for programs without a Kafka client."""
