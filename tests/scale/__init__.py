"""Sizes that have to be comfortable: ceilings are generous, and only a blow-up reaches them."""
