"""Consume, transform, produce in transactions: whatever is killed meanwhile, each input comes out once."""
