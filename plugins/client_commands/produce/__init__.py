"""The command `tidelog produce`."""
