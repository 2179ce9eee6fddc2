"""Drivers: they move bytes and wait, for the blocking world and for trio; everything else is in the core."""
