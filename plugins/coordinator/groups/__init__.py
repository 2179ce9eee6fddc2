"""Groups of every protocol: the interface that they share, the registry of all of them, and their service."""
