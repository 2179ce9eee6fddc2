"""Groups of the consumer protocol (KIP-848): the broker assigns partitions, members reconcile one by one."""
