"""Registries in ZooKeeper, for clients and tools of Kafka 0.8 to 0.10; see docs/zookeeper.md."""
