"""Groups of the classic protocol.

The state machine is `group` (what is known), `states` (what follows what), `rebalance`, `joining`, `syncing`,
`leaving` and `sessions` (what happens); it knows no socket, no clock and no log. `service` drives it.
"""
