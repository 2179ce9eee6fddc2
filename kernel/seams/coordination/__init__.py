"""The coordination seam: who looks after groups, their offsets and transactions.

Domain types and protocols only. A coordinator plugin implements them, wire codecs call them, and neither
knows of the other. One module per service.
"""
