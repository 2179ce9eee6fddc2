"""A library for brokers and clients: lines of JAAS, and the messages of SCRAM."""
