"""Real clients, each as its users have it, against a broker in a process of its own.

The broker is tidelog. `CLIENTS_AGAINST=kafka` runs the same tests against Apache Kafka, which proves
the tests.
"""
