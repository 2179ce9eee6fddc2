"""The commands `tidelog users`."""
