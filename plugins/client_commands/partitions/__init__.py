"""The commands `tidelog partitions`."""
