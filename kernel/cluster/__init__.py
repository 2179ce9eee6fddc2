"""What this broker has of the cluster beside topics: brokers, features, configuration, producer ids."""
