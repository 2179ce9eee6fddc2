"""Random `kill -9` of two mirrors in a row and the brokers: Apache Kafka, tidelog, Apache Kafka."""
