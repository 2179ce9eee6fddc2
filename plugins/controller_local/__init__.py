"""The controller of a broker that decides for itself: which changes of the metadata are valid (`local`).

A module for the rules of each kind of change: topics, features, configuration of brokers and of other
resources, client quotas, credentials.
"""
