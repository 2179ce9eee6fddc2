"""What plugin authors implement or are handed."""
