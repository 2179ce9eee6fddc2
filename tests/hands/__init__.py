"""One data directory in the hands of tidelog and of Apache Kafka in turn, under clients that live on."""
