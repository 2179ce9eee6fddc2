"""The coordination seam: the coordinator of groups, their offsets and transactions.

Domain types and protocols only. A coordinator plugin implements them, wire codecs call them, and neither
knows of the other. One module per service.
"""
