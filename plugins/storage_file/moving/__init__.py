"""Moving a partition to another log directory while it is used; `moves` is where to begin reading."""
