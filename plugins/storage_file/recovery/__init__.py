"""Opening partitions: what a clean stop left is taken over, what a crash left is checked."""
