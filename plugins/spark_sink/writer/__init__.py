"""Rows of Spark as records of topics: the writers of `df.write` and `df.writeStream`.

From the rows to the broker: `rows` (columns as Arrow arrays), `partitioning`, `encoding` (record batches),
`producing` (one task's writes), `transactions` (exactly once), and the writers that Spark calls, `writers`.
Only `writers` and what Spark calls it with need pyspark.
"""
