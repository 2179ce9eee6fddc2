"""Storage in files, in Apache Kafka's own formats; see docs/storage.md for the layout on disk."""
