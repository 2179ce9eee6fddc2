"""The commands `tidelog acls`."""
