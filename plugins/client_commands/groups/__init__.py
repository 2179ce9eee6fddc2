"""The commands `tidelog groups`."""
