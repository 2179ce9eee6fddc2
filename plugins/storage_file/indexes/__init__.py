"""The indexes of a segment: offset and time to position, and the aborted transactions."""
