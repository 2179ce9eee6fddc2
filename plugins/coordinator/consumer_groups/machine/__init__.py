"""State machine of a consumer group: an event and the state in, the answer and a draft of the changes out.

    consumer_requests   ConsumerGroupHeartbeat: a member joins, stays, leaves
    classic_requests    JoinGroup, SyncGroup and Heartbeat of members that speak the classic protocol
    departures          LeaveGroup, and timers that expired
    transitions         what these have in common; a target assignment that was computed in the background

It knows no socket, no clock and no log; `group` is the state, and stays as it is while an event is decided.
"""
