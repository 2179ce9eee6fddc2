"""What Kafka's controller does: cluster, features, producer ids, and configuration that is in the metadata.

The classes check changes, and write them to the metadata store. Those of topics are in `topics`.
"""
