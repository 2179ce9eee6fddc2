"""Mutation testing: change one thing in a module at a time, and see whether its quick tests notice."""
