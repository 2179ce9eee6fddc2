"""The property tests with examples at random, for as long as somebody likes to wait."""
