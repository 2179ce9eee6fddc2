"""Groups of the classic protocol.

The state machine is `group` and `member` (state), `states` (what may follow what), `joining`, `syncing`,
`rebalance` and `sessions`; it knows no socket, no clock and no log. `live` is a group in the registry, which
drives it; `changes` is its record; `manager` creates and restores groups.
"""
