"""The parts of a partition's store: its state in memory, and a module for each thing that is done to it."""
