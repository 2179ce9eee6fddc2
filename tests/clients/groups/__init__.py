"""Consumers in groups, as users run them: processes that come and go, are killed, and lose their broker."""
