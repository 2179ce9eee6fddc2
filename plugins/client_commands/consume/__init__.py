"""The command `tidelog consume`."""
