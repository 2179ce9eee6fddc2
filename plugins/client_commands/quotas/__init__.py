"""The commands `tidelog quotas`."""
