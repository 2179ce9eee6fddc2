"""Groups of every protocol: the interface that they share, and the registry of all of them."""
