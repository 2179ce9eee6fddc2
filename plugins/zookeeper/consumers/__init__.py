"""Coordination of consumers through ZooKeeper, as the high-level consumers of Kafka 0.8 to 0.10 do it.

Members of one group may be these and those consumers. From the inside out:

- `assignment`: which stream of which member gets which partition; a pure function of what is registered.
- `subscriptions`: what a member has registered, as JSON.
- `membership`: the state machine of one member: an event in, actions out; it has no clock and no socket.
- `registries`: the nodes of consumers, owners and offsets, over any `ZooKeeper`.
- `member`: runs a membership by callbacks, in whatever loop its client of ZooKeeper has.
"""
