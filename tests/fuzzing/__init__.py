"""Coverage-guided fuzzing of what comes from outside: frames, record batches, files of a data directory."""
