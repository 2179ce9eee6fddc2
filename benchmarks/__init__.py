"""tidelog measured beside Apache Kafka, with the same client, on the same machine, in alternation.

`python -m benchmarks --help` tells how; docs/benchmarks.md tells what each row means.
"""
