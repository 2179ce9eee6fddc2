"""Groups of the classic protocol.

The state machine is `group` and `members` (state), `states` (the valid transitions) and `machine` (requests);
it knows no socket, no clock and no log. `records` is what is written of it. `registered_classic_group` is a
group in the registry, which drives it; `factory` creates and restores those.
"""
