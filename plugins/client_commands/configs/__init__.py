"""The commands `tidelog configs`."""
