"""SASL mechanisms of brokers: PLAIN and SCRAM."""
