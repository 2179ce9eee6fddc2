"""The metadata log of a broker, in Apache Kafka's own format; see docs/metadata.md for the whole of it."""
