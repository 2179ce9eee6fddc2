"""docs/spark-declarative.md, executed: too long for the suite, since each of its commands starts a JVM."""
