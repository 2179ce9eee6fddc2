"""What Kafka's controller does: which changes of the metadata are valid, and committing them (`local`).

A module for the rules of each kind of change, with what the broker reads of it in the image: topics,
features, configuration of brokers and of other resources, client quotas, credentials, producer ids, cluster.
"""
