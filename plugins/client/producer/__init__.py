"""Producer: records are queued, encoded in batches and sent to the leaders of their partitions.

`producer` and `async_producer` have the classes, `core` what they share.
"""
