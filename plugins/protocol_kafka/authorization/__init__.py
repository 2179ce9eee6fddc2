"""What each API needs to be allowed, asked around its handler; only loaded where there is an authorizer."""
