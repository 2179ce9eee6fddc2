"""Operations of a client, each written once and without I/O (see `tidelog.plugins.client.steps`).

Nothing is imported here, so that a program that only fetches does not import what administers topics;
`all_operations` has all of them.
"""
