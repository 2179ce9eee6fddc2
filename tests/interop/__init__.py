"""Real clients of every age against tidelog, and beside it against Apache Kafka: a table of scenarios.

A driver is a small program in the client's language (folder `drivers`). It takes actions as lines and answers
each with a line of JSON. What has to be there before an action, and what has to be there after it, is up to a
client of another make.
"""
