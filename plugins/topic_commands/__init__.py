"""The command `tidelog topics`: list, create, describe, alter and delete topics, over the client core."""
