"""The high-level consumer: the partitions of a group's member divided among streams.

- `core`: streams and what is consumed of them, without a driver.
- `group_coordination`, `zookeeper_coordination`: which partitions there are, by the brokers'
  groups or by the registries in ZooKeeper.
- `connector`, `async_connector`: the classes for blocking and for async code.
"""
