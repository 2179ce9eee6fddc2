"""SASL mechanisms of brokers: PLAIN, SCRAM and OAUTHBEARER."""
