"""The policy `compact`: which logs are compacted (`policy`), and which of their records stay (`keep_newest`).

The newest offset of each key is found by its hash (`hashing`) in memory of a fixed size (`offset_map`), or,
once it is known, by its offset alone (`newest_offsets`).
"""
