"""Programs that are members of a group, one for each client.

Each takes bootstrap servers, topic, group and key=value settings under Kafka's own names. It tells on its
output, a line each, at which nanosecond of the monotonic clock it came to own other partitions, read a
record or committed; on its input it is told to commit or to leave. The end of its input means `leave` too.
"""
