"""`tidelog load`: a range of topics into files of a directory, each record exactly once.

`request` is what the user asks for, `plan` what that means in offsets, `directory` the commits that survive
a kill, `chunks` the writing with Spark, `run` all of it together, `execution` and `command` the command line.
"""
