"""TLS for listeners: the security protocol SSL."""
