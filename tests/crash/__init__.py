"""Crashes: of the process, of the machine, at every step and at random."""
