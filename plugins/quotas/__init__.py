"""The quota callback `standard`: limits by the quotas that are set for users and client ids."""
