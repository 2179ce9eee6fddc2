"""Carrying out cleanup policies: they are asked what may go, their plans are checked and carried out.

Each policy has a background task of its own (`policy_execution`). A partition is in the hands of one policy
at a time; another one passes over it, and comes back with its next run. Segments are deleted and rolled in
place, and rewritten by a process of its own (`rewriting`), of which there are some (`workers`).
"""
