"""The records of Kafka's metadata log, declared once each; `types` lists them all."""
