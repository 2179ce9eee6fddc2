"""SASL mechanisms of brokers: PLAIN, SCRAM, OAUTHBEARER and GSSAPI."""
