"""Groups of the consumer protocol (KIP-848): the broker assigns partitions, members reconcile one by one.

The state is `group` and `member`; `machine` decides about events, in a `draft`. `checks`, `assigning` (of
partitions to members), `reconciliation` (of a member with that) and `migration` (from and to the classic
protocol) are what it decides by. `records` are what is written. `registered_consumer_group` is a group in the
registry, with its `timers` and its `background_assignment`, and `service` serves requests.
"""
