"""Random `kill -9` of broker, Spark driver and Python workers, under queries that write exactly once."""
