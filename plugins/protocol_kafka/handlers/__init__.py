"""A module per API: `handle(context, request)` gives the response, or an awaitable of it when it has to wait.

`None` means that the client gets no answer (Produce with acks 0).
"""
