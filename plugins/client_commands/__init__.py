"""Commands for a running cluster, of tidelog or of Apache Kafka."""
