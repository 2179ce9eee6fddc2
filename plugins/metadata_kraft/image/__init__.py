"""What the metadata log adds up to: the state, how records change it, and the records that make it again."""
