"""Doors for programs that are no members: STOMP 1.2 over TCP and WebSocket.

`frames` and `session` are the protocol, without sockets or clock; `content` translates messages; `desk` gives
clients destinations, consumers, acknowledgements and transactions, whatever protocol they speak; `server` has
the sockets.
"""
