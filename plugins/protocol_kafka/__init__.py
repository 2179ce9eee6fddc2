"""Kafka's wire protocol: messages, codecs, the sans-IO connection and the handlers of each API."""
