"""Frames that real clients exchanged with Apache Kafka and with tidelog, captured once and kept here."""
