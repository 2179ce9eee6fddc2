"""The commands `tidelog tokens`."""
