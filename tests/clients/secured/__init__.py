"""Clients of every kind on listeners with TLS and SASL."""
