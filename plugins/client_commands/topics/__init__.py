"""The commands `tidelog topics`."""
