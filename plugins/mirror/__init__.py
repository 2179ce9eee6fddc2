"""Mirroring between clusters: topics of other clusters are copied into one, exactly once, and followed."""
