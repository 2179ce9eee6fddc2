"""The process that rewrites segments, so that the broker's event loop stays free.

`process` starts one and talks to it; `__main__` is what runs in it, and knows neither broker nor event loop.
There `rewriter` does one log: first the filter surveys it, then it copies what stays. `transactions` finds
records of aborted transactions and markers that may be dropped, `batches` encodes what stays of a batch,
`segments` reads whole batches, `scheduling` lets all other processes run first, `messages` are what the two
processes send to each other.
"""
