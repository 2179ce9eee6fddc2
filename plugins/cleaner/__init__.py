"""The log cleaner: carries out the cleanup policies of all plugins, and offers one of them, `compact`.

`execution` asks the policies and carries out their plans, `worker` is the program of the processes that
rewrite segments, `compaction` is the policy; see docs/compaction.md. None is imported here: a worker must not
load the event loop.
"""
